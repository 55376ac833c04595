-- Runs that have not ended, the oldest first. An external run needs no process that finds the store: it goes along.
SELECT run, id, run_agent FROM items WHERE run IS NOT NULL AND lease_until_us IS NOT NULL ORDER BY run LIMIT :limit
