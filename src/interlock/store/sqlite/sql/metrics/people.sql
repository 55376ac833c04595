-- The numbers of items that wait for a person's answer, and of those that wait for a person after too many wake-ups; each up to a limit.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM items WHERE run IS NULL AND status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY run, id LIMIT :limit))
    + (SELECT count(*) FROM (SELECT 1 FROM items WHERE status = 'in_progress' AND reason = 'asked' ORDER BY id LIMIT :limit)),
    (SELECT count(*) FROM (SELECT 1 FROM items WHERE gated = 0 AND status = 'waiting' AND reason = 'loop' ORDER BY lane LIMIT :limit))
