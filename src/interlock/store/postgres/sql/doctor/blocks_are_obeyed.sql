-- Blocked items and lanes are flagged as blocked, and no others.
-- mend: Block it again, or unblock it.
SELECT 'item ' || id FROM interlock.items i
WHERE blocked AND NOT EXISTS (SELECT FROM interlock.blocks b WHERE b.lane = '' AND b.item = i.id)
UNION ALL
SELECT DISTINCT 'item ' || i.id FROM interlock.blocks b JOIN interlock.items i ON i.id = b.item
WHERE b.lane = '' AND NOT i.blocked AND i.ended_us IS NULL
UNION ALL
SELECT 'lane ' || lane FROM interlock.lanes l
WHERE blocked AND NOT EXISTS (SELECT FROM interlock.blocks b WHERE b.lane = l.lane AND b.item = 0)
UNION ALL
SELECT DISTINCT 'lane ' || l.lane FROM interlock.blocks b JOIN interlock.lanes l ON l.lane = b.lane WHERE b.item = 0 AND NOT l.blocked
