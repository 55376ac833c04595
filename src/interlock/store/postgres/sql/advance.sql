-- Skip numbers of runs and events that may already have been given out.
WITH events AS MATERIALIZED (
    SELECT setval('interlock.event_numbers', greatest(nextval('interlock.event_numbers') + %(events)s,
        (SELECT max(seq) >> 16 FROM interlock.events)))
)
SELECT setval('interlock.run_numbers', %(last_run)s) FROM events
