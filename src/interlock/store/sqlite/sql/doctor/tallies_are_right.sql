-- Every count of items by status and priority equals the number of such items.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT status || ' of priority ' || priority || ' is off by ' || sum(n) FROM (
    SELECT status, priority, scheduled, n FROM tallies
    UNION ALL
    SELECT status, priority, due_us IS NOT NULL, -count(*) FROM items GROUP BY 1, 2, 3
)
GROUP BY status, priority, scheduled HAVING sum(n) <> 0
