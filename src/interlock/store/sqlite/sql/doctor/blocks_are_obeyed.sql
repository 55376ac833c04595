-- Blocked items and lanes are flagged as blocked, and no others.
-- mend: Block it again, or unblock it.
SELECT 'item ' || id FROM items i
WHERE blocked = 1 AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.lane = '' AND b.item = i.id)
UNION ALL
SELECT DISTINCT 'item ' || i.id FROM blocks b JOIN items i ON i.id = b.item
WHERE b.lane = '' AND i.blocked = 0 AND i.ended_us IS NULL
UNION ALL
SELECT 'lane ' || lane FROM lanes l
WHERE blocked = 1 AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.lane = l.lane AND b.item = 0)
UNION ALL
SELECT DISTINCT 'lane ' || l.lane FROM blocks b JOIN lanes l ON l.lane = b.lane WHERE b.item = 0 AND l.blocked = 0
