-- The edges out of every task that the named ones reach through ranks up to a bound.
-- `OFFSET 0` and the scalar subquery make each step a look-up by key, not a join that reads every edge of the store.
WITH RECURSIVE reached(item) AS (
    SELECT item FROM interlock.tasks WHERE item = ANY(%(items)s::bigint[]) AND rank <= %(bound)s
    UNION
    SELECT step.target FROM reached CROSS JOIN LATERAL (
        SELECT e.target FROM interlock.edges e WHERE e.source = reached.item
            AND (SELECT t.rank FROM interlock.tasks t WHERE t.item = e.target) <= %(bound)s OFFSET 0) AS step
)
SELECT onwards.* FROM reached CROSS JOIN LATERAL (SELECT * FROM interlock.edges e WHERE e.source = reached.item OFFSET 0) AS onwards
