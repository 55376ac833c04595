-- Runs that have not ended, the oldest first.
SELECT run, id, run_agent FROM items WHERE run IS NOT NULL ORDER BY run LIMIT :limit
