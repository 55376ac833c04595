-- Effective blocks, the oldest first. An item is looked up by its key: EXISTS may be planned as a scan of all items.
SELECT lane, item, blocker, why, url, at_us FROM interlock.blocks AS b
WHERE b.item = 0 OR (SELECT i.ended_us IS NULL FROM interlock.items AS i WHERE i.id = b.item)
ORDER BY at_us, lane, item, blocker LIMIT %(limit)s
