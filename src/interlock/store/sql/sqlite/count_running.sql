-- How many runs an agent has, counted under the write lock.
SELECT count(*) FROM items WHERE status = 'in_progress' AND due_us IS NOT NULL AND run_agent = ?
