-- The counts by status and priority are the numbers of items.
-- mend: This must not happen; keep a copy of the database and report it.
SELECT status || ' of priority ' || priority || ' off by ' || sum(n) FROM (
    SELECT status, priority, n FROM interlock.tallies
    UNION ALL SELECT status, priority, n FROM interlock.tally_changes
    UNION ALL SELECT status, priority, -1 FROM interlock.items
) AS counted
GROUP BY status, priority HAVING sum(n) <> 0
