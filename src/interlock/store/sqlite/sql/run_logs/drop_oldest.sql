-- Keep the output of so many runs, the newest.
DELETE FROM run_logs WHERE run < (SELECT run FROM run_logs ORDER BY run DESC LIMIT 1 OFFSET :kept - 1)
