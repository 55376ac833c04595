-- Blocks of a lane, and of items.
SELECT lane, item, blocker, why, url, at_us FROM blocks
WHERE (lane = :lane AND lane <> '' AND item = 0) OR (lane = '' AND item IN (SELECT value FROM json_each(:items)))
ORDER BY at_us, lane, item, blocker
