-- The edges that lead away from tasks; with rearm also those of dependents, near and far, that were cancelled as
-- unreachable.
WITH RECURSIVE start(item) AS (
    SELECT unnest(%(items)s::bigint[])
    UNION
    SELECT e.target FROM start JOIN interlock.edges e ON e.source = start.item
        JOIN interlock.items i ON i.id = e.target
    WHERE %(rearm)s::boolean AND i.status = 'cancelled' AND i.reason = 'unreachable'
)
SELECT e.* FROM start JOIN interlock.edges e ON e.source = start.item
