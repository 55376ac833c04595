-- Skips numbers of runs and events that may have been given out already.
WITH events AS MATERIALIZED (
    SELECT setval('interlock.event_numbers', greatest(nextval('interlock.event_numbers') + %(events)s,
        (SELECT max(seq) >> 16 FROM interlock.events)))
)
SELECT setval('interlock.run_numbers', %(last_run)s) FROM events
