-- The last lines of these runs' output.
SELECT run, last_line FROM interlock.run_logs WHERE run = ANY(%(runs)s::bigint[])
