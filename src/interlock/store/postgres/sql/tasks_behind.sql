-- Tasks that can never start if the named ones cannot, nearest first, up to a limit: they wait, and have no lane. The walk
-- stops at the limit too.
WITH RECURSIVE behind(item) AS (
    SELECT unnest(%(items)s::bigint[])
    UNION
    SELECT e.target FROM behind JOIN interlock.edges e ON e.source = behind.item AND e.on_cancel = 'block'
        JOIN interlock.items i ON i.id = e.target
    WHERE i.status = 'waiting' AND i.lane IS NULL AND i.first_claimed_us IS NULL
)
SELECT t.* FROM (SELECT item FROM behind LIMIT %(limit)s) AS near JOIN interlock.tasks t ON t.item = near.item
