-- Items that wait for a person, the oldest first. The plus keeps SQLite from scanning all items in order of their numbers.
SELECT * FROM items WHERE gated = 0 AND status = 'waiting' AND reason = 'loop' ORDER BY +id LIMIT :limit
