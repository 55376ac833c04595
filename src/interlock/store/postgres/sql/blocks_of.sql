-- Blocks of a lane, and of items.
SELECT lane, item, blocker, why, url, at_us FROM interlock.blocks
WHERE (lane = %(lane)s AND lane <> '' AND item = 0) OR (lane = '' AND item = ANY(%(items)s::bigint[]))
ORDER BY at_us, lane, item, blocker
