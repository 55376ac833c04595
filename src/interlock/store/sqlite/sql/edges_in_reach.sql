-- The edges that lead away from whatever is reachable from the tasks named through ranks up to a bound.
WITH RECURSIVE reached(item) AS (
    SELECT item FROM tasks WHERE item IN (SELECT value FROM json_each(:items)) AND rank <= :bound
    UNION
    SELECT e.target FROM reached JOIN edges e ON e.source = reached.item JOIN tasks t ON t.item = e.target
    WHERE t.rank <= :bound
)
SELECT e.* FROM reached CROSS JOIN edges e ON e.source = reached.item
