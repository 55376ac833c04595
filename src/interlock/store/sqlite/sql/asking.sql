-- Items that wait for the answer of a person, the oldest first.
SELECT * FROM items WHERE status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY id LIMIT :limit
