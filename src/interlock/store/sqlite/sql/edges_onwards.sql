-- The edges out of tasks. With :rearm, also those of direct and indirect dependents that were cancelled as unreachable.
WITH RECURSIVE start(item) AS (
    SELECT value FROM json_each(:items)
    UNION
    SELECT e.target FROM start JOIN edges e ON e.source = start.item JOIN items i ON i.id = e.target
    WHERE :rearm AND i.status = 'cancelled' AND i.reason = 'unreachable'
)
SELECT e.* FROM start JOIN edges e ON e.source = start.item
