-- The items of live runs that count for one, the oldest run first. Each arm reads its own runs; that of a project reads all that run.
SELECT id FROM (
    SELECT i.id, i.run FROM items i INDEXED BY items_running
    WHERE :scope = 'agent' AND i.run IS NOT NULL AND i.run_agent = :name
        AND i.cancel_into IS NULL AND i.type <> 'hold'
    UNION ALL
    SELECT i.id, i.run FROM agents a CROSS JOIN items i INDEXED BY items_running ON i.run_agent = a.key
    WHERE :scope = 'pool' AND a.pool = :name AND i.run IS NOT NULL
        AND i.cancel_into IS NULL AND i.type <> 'hold'
    UNION ALL
    SELECT i.id, i.run FROM items i INDEXED BY items_running
    WHERE :scope = 'project' AND i.run IS NOT NULL AND i.project = :name
        AND i.cancel_into IS NULL AND i.type <> 'hold'
) AS live
ORDER BY run LIMIT :limit
