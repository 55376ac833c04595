-- Keep the output of so many runs, the newest.
DELETE FROM interlock.run_logs WHERE run < (SELECT run FROM interlock.run_logs ORDER BY run DESC LIMIT 1 OFFSET %(kept)s::integer - 1)
