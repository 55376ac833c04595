-- Every count of items by status and priority equals the number of such items.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT status || ' of priority ' || priority || ' is off by ' || sum(n) FROM (
    SELECT status, priority, n FROM interlock.tallied
    UNION ALL SELECT status, priority, -1 FROM interlock.items
) AS counted
GROUP BY status, priority HAVING sum(n) <> 0
