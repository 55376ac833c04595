-- Runs that have not ended, the oldest first.
SELECT run, id, run_agent FROM interlock.items WHERE status = 'in_progress' ORDER BY run LIMIT %(limit)s
