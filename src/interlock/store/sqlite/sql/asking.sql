-- Items that wait for a person's answer, after their run or with a live one, the oldest first.
SELECT * FROM (
    SELECT * FROM (SELECT * FROM items WHERE run IS NULL AND status IN ('waiting', 'pending') AND reason = 'asked' ORDER BY run, id LIMIT :limit) AS parked
    UNION ALL
    SELECT * FROM (SELECT * FROM items WHERE status = 'in_progress' AND reason = 'asked' ORDER BY id LIMIT :limit) AS live
) AS asking ORDER BY id LIMIT :limit
