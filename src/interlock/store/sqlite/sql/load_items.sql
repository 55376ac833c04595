-- All items that a transaction may decide on. These are the named items and those that absorbed them. For each lane, they are its
-- active items, the first :heads of its line, and items that an arrival may replace or a person restart. For each name that
-- arrives on a lane, they are the oldest deferred and the oldest parked item, which may absorb it.
WITH lane AS (SELECT value AS lane FROM json_each(:lanes)),
named AS (SELECT value AS id FROM json_each(:items))
SELECT * FROM items NOT INDEXED WHERE id IN (
    SELECT id FROM named
    UNION
    SELECT i.absorbed_by FROM named CROSS JOIN items i NOT INDEXED ON i.id = named.id WHERE i.absorbed_by IS NOT NULL
    UNION
    SELECT holders.item FROM lane CROSS JOIN holders ON holders.lane = lane.lane
    UNION
    SELECT i.id FROM lane CROSS JOIN items i NOT INDEXED ON i.id IN (
        SELECT d.id FROM items d INDEXED BY items_line WHERE d.lane = lane.lane AND d.status = 'deferred'
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT :heads)
    UNION
    SELECT i.id FROM lane CROSS JOIN items i INDEXED BY items_replaceable ON i.lane = lane.lane
        AND i.status IN ('deferred', 'waiting') AND i.policy IN ('supersede', 'latest')
        AND (i.status = 'deferred' OR i.first_claimed_us IS NOT NULL OR i.reason = 'loop')
    UNION
    SELECT (SELECT d.id FROM items d INDEXED BY items_namesakes
        WHERE d.lane = name.value ->> 0 AND d.agent_key = name.value ->> 1 AND d.status = 'deferred'
            AND NOT (d.type = 'hold' AND EXISTS (SELECT 1 FROM json_each(d.labels) AS label WHERE label.value = 'hold'))
        ORDER BY d.position, d.ticket, d.id LIMIT 1)
    FROM json_each(:names) AS name
    UNION
    SELECT (SELECT d.id FROM items d INDEXED BY items_retries
        WHERE d.lane = name.value ->> 0 AND d.agent_key = name.value ->> 1 AND d.status = 'waiting'
            AND d.first_claimed_us IS NOT NULL AND d.due_us IS NOT NULL
        ORDER BY d.position, d.ticket, d.id LIMIT 1)
    FROM json_each(:names) AS name
    UNION
    SELECT i.id FROM lane CROSS JOIN items i INDEXED BY items_stopped ON i.lane = lane.lane AND i.status = 'waiting' AND i.reason = 'loop'
)
ORDER BY id
