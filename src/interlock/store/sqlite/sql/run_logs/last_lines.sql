-- The last lines of these runs' output.
SELECT run, last_line FROM run_logs WHERE run IN (SELECT value FROM json_each(:runs))
