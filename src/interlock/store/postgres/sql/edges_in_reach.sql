-- The edges out of every task that the named ones reach through ranks up to a bound.
WITH RECURSIVE reached(item) AS (
    SELECT item FROM interlock.tasks WHERE item = ANY(%(items)s::bigint[]) AND rank <= %(bound)s
    UNION
    SELECT e.target FROM reached JOIN interlock.edges e ON e.source = reached.item
        JOIN interlock.tasks t ON t.item = e.target
    WHERE t.rank <= %(bound)s
)
SELECT e.* FROM reached JOIN interlock.edges e ON e.source = reached.item
