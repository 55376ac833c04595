-- The edges out of tasks. With rearm, also those of direct and indirect dependents that were cancelled as unreachable.
-- `OFFSET 0` and the scalar subquery make each step a look-up by key, not a join that reads every edge of the store.
WITH RECURSIVE start(item) AS (
    SELECT unnest(%(items)s::bigint[])
    UNION
    SELECT step.target FROM start CROSS JOIN LATERAL (
        SELECT e.target FROM interlock.edges e WHERE %(rearm)s::boolean AND e.source = start.item
            AND (SELECT i.status = 'cancelled' AND i.reason = 'unreachable' FROM interlock.items i WHERE i.id = e.target)
        OFFSET 0) AS step
)
SELECT onwards.* FROM start CROSS JOIN LATERAL (SELECT * FROM interlock.edges e WHERE e.source = start.item OFFSET 0) AS onwards
