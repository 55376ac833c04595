-- Items that wait for a person, the oldest first.
SELECT * FROM interlock.items WHERE NOT gated AND status = 'waiting' AND reason = 'loop' ORDER BY id LIMIT %(limit)s
