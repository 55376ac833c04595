-- The items of live runs that count for one, the oldest run first. Each arm reads its own runs; that of a project reads all that run.
SELECT id FROM (
    SELECT i.id, i.run FROM interlock.items i
    WHERE %(scope)s::text = 'agent' AND i.status = 'in_progress' AND i.run_agent = %(name)s
        AND i.cancel_into IS NULL AND i.type <> 'hold'
    UNION ALL
    SELECT i.id, i.run FROM interlock.agents a JOIN interlock.items i ON i.run_agent = a.key
    WHERE %(scope)s::text = 'pool' AND a.pool = %(name)s AND i.status = 'in_progress'
        AND i.cancel_into IS NULL AND i.type <> 'hold'
    UNION ALL
    SELECT i.id, i.run FROM interlock.items i
    WHERE %(scope)s::text = 'project' AND i.status = 'in_progress' AND i.project = %(name)s
        AND i.cancel_into IS NULL AND i.type <> 'hold'
) AS live
ORDER BY run LIMIT %(limit)s
