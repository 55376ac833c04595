-- The first and last number of the history.
SELECT min(seq), max(seq) FROM interlock.events
