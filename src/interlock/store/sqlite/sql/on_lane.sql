-- The unfinished items of a lane: its owner, items that started while the lane was only observed, the first of its line, and items
-- that wait for a time or for tasks. The last are found among all items that wait so.
SELECT * FROM (SELECT i.* FROM holders h CROSS JOIN items i ON i.id = h.item WHERE h.lane = :lane ORDER BY h.observed, h.item LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT * FROM items WHERE status = 'deferred' AND lane = :lane ORDER BY front DESC, position, ticket, id LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT * FROM items WHERE status = 'waiting' COLLATE NOCASE AND (lane = :lane OR observed_lane = :lane) LIMIT :limit)
