-- The first and last number of the history.
SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)
