-- Skips numbers of runs and events that may have been given out already; gives the last run number skipped.
WITH events AS MATERIALIZED (
    SELECT setval('interlock.event_numbers', greatest(nextval('interlock.event_numbers') + %(events)s,
        (SELECT max(seq) >> 16 FROM interlock.events)))
)
SELECT setval('interlock.run_numbers', nextval('interlock.run_numbers') + %(runs)s) FROM events
