-- Items that wait for a person's answer, the oldest first.
SELECT * FROM items WHERE run IS NULL AND status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY run, id LIMIT :limit
