-- The number of the newest line of the history.
SELECT coalesce(max(seq), 0) FROM interlock.events
