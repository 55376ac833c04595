-- When the oldest ready item arrived.
SELECT created_us FROM interlock.items WHERE status = 'pending' AND due_us IS NULL ORDER BY id LIMIT 1
