-- Runs whose lease is not over, the oldest first.
SELECT run, id, run_agent FROM items
WHERE status = 'in_progress' AND (due_us IS NULL OR due_us > :now_us)
ORDER BY run
LIMIT :limit
