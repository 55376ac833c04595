-- Runs with an unexpired lease, the oldest first. An external run has none, and needs no process that finds the store.
SELECT run, id, run_agent FROM items
WHERE status = 'in_progress' AND lease_until_us IS NOT NULL AND due_us > :now_us
ORDER BY run
LIMIT :limit
