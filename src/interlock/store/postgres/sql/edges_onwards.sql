-- The edges that lead away from tasks; with rearm also those of dependents, near and far, that were cancelled as
-- unreachable.
-- Planned anew for each call: a plan that was kept since the table was small reads all of it at every step.
-- `OFFSET 0` and the scalar subquery make each step a look by key, not a join that reads every edge of the store.
WITH RECURSIVE start(item) AS (
    SELECT unnest(%(items)s::bigint[])
    UNION
    SELECT step.target FROM start CROSS JOIN LATERAL (
        SELECT e.target FROM interlock.edges e WHERE %(rearm)s::boolean AND e.source = start.item
            AND (SELECT i.status = 'cancelled' AND i.reason = 'unreachable' FROM interlock.items i WHERE i.id = e.target)
        OFFSET 0) AS step
)
SELECT onwards.* FROM start CROSS JOIN LATERAL (SELECT * FROM interlock.edges e WHERE e.source = start.item OFFSET 0) AS onwards
