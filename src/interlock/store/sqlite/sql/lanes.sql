-- Lanes that are held or have a line: the owner, how many wait, and the first of them.
WITH busy(lane) AS (
    SELECT lane FROM items WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL
    UNION SELECT observed_lane FROM items WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL
    UNION SELECT lane FROM items WHERE status = 'deferred'
)
SELECT busy.lane,
    (SELECT count(*) FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane),
    (SELECT json_group_array(id) FROM (SELECT d.id FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 20)),
    coalesce(
        (SELECT o.id FROM items o WHERE o.lane = busy.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL),
        (SELECT min(o.id) FROM items o WHERE o.observed_lane = busy.lane AND o.status IN ('pending', 'in_progress')
            AND o.observed_lane IS NOT NULL))
FROM busy WHERE substr(busy.lane, 1, length(:prefix)) = :prefix ORDER BY busy.lane LIMIT :limit
