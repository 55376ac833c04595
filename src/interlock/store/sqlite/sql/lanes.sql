-- Lanes that are held or have a line, with how many wait, counted up to a limit, and the first of them. Goes from one lane to the next.
WITH RECURSIVE busy(lane) AS (
    SELECT (SELECT lane FROM (SELECT lane FROM holders UNION ALL SELECT lane FROM items WHERE status = 'deferred')
        WHERE lane >= :prefix ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT next.lane FROM (SELECT lane FROM holders UNION ALL SELECT lane FROM items WHERE status = 'deferred') AS next
        WHERE next.lane > busy.lane ORDER BY next.lane LIMIT 1)
    FROM busy WHERE lane IS NOT NULL AND substr(lane, 1, length(:prefix)) = :prefix
)
SELECT lane,
    (SELECT count(*) FROM (SELECT 1 FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane LIMIT :counted)),
    (SELECT json_group_array(id) FROM (SELECT d.id FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 20))
FROM busy WHERE lane IS NOT NULL AND substr(lane, 1, length(:prefix)) = :prefix LIMIT :limit
