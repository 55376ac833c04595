-- The named agents, and those with any limit, with the numbers of all their runs and of edits of plans.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > :now_us THEN a.wall_us END, a.wall_why, a.pool, a.overtake_after_s,
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = a.key), 0, p.max_concurrency, p.running,
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = a.key AND type = 'plan.edit')
FROM (
    SELECT * FROM agents
    WHERE key IN (SELECT value FROM json_each(:named)) OR max_concurrency IS NOT NULL OR paused_why IS NOT NULL OR wall_us IS NOT NULL OR pool IS NOT NULL OR key IN (SELECT name FROM budgets WHERE scope = 'agent') OR types <> '[]' OR labels <> '[]'
    ORDER BY key NOT IN (SELECT value FROM json_each(:named)), key LIMIT :limit
) AS a LEFT JOIN pool_runs p ON p.name = a.pool
