-- How many items wait for the answer of a person, and how many for a person since their wake-ups were too many; each up to a limit.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM items WHERE status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY id LIMIT :limit)),
    (SELECT count(*) FROM (SELECT 1 FROM items WHERE status = 'waiting' AND reason = 'loop' ORDER BY lane LIMIT :limit))
