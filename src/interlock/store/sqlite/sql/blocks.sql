-- Effective blocks, the oldest first.
SELECT lane, item, blocker, why, url, at_us FROM blocks AS b
WHERE b.item = 0 OR EXISTS (SELECT 1 FROM items AS i WHERE i.id = b.item AND i.ended_us IS NULL)
ORDER BY at_us, lane, item, blocker LIMIT :limit
