-- Tasks that end with those named if these can never start, nearest first, up to a limit: they wait, on no lane.
-- A recursive part is gone on with only for as many rows as are asked of it, so the limit bounds the walk too.
WITH RECURSIVE behind(item) AS (
    SELECT unnest(%(items)s::bigint[])
    UNION
    SELECT e.target FROM behind JOIN interlock.edges e ON e.source = behind.item AND e.on_cancel = 'block'
        JOIN interlock.items i ON i.id = e.target
    WHERE i.status = 'waiting' AND i.lane IS NULL AND i.first_claimed_us IS NULL
)
SELECT t.* FROM (SELECT item FROM behind LIMIT %(limit)s) AS near JOIN interlock.tasks t ON t.item = near.item
