-- The agents named, and those that are limited in any way, with all their runs and those that are edits of plans.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us, wall_us, wall_why, pool, overtake_after_s,
    (SELECT max_concurrency FROM pool_runs WHERE pool_runs.name = agents.pool),
    (SELECT running FROM pool_runs WHERE pool_runs.name = agents.pool),
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = agents.key),
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = agents.key AND type = 'plan.edit')
FROM agents
WHERE key IN (SELECT value FROM json_each(:named)) OR max_concurrency IS NOT NULL OR paused_why IS NOT NULL OR wall_us IS NOT NULL OR pool IS NOT NULL
    OR types <> '[]' OR labels <> '[]'
ORDER BY key NOT IN (SELECT value FROM json_each(:named)), key LIMIT :limit
