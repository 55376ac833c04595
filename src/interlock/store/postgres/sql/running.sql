-- Live runs, the oldest first. An external run needs no process that finds the store, so it moves along.
SELECT run, id, run_agent FROM interlock.items
WHERE status = 'in_progress' AND lease_until_us IS NOT NULL ORDER BY run LIMIT %(limit)s
