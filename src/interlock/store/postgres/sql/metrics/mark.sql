-- The position up to which the history is counted.
SELECT seq FROM interlock.marks WHERE name = 'metrics'
