-- Items that wait for a person's answer, the oldest first.
SELECT * FROM items WHERE status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY id LIMIT :limit
