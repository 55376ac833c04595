-- How far the history is counted.
SELECT seq FROM marks WHERE name = 'metrics'
