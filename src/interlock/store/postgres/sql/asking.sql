-- Items that wait for a person's answer, the oldest first.
SELECT * FROM interlock.items WHERE status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY id LIMIT %(limit)s
