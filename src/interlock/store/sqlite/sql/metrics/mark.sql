-- The position up to which the history is counted.
SELECT seq FROM marks WHERE name = 'metrics'
