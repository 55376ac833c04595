-- Waiting tasks without a lane that can never start if the named ones cannot, nearest first, up to a limit. The walk also stops at the
-- limit.
-- `OFFSET 0` and the scalar subquery make each step a look-up by key, not a join that reads every edge of the store.
WITH RECURSIVE behind(item) AS (
    SELECT unnest(%(items)s::bigint[])
    UNION
    SELECT step.target FROM behind CROSS JOIN LATERAL (
        SELECT e.target FROM interlock.edges e WHERE e.source = behind.item AND e.on_cancel = 'block'
            AND (SELECT i.status = 'waiting' AND i.lane IS NULL AND i.first_claimed_us IS NULL FROM interlock.items i WHERE i.id = e.target)
        OFFSET 0) AS step
)
SELECT t.* FROM (SELECT item FROM behind LIMIT %(limit)s) AS near JOIN interlock.tasks t ON t.item = near.item
