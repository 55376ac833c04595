-- Every agent with what it runs and what waits for it by name, the latter counted up to a limit.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us, wall_us, wall_why, pool, overtake_after_s,
    (SELECT max_concurrency FROM pool_runs WHERE pool_runs.name = agents.pool),
    (SELECT running FROM pool_runs WHERE pool_runs.name = agents.pool),
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = agents.key),
    (SELECT count(*) FROM (SELECT 1 FROM queued q WHERE q.agent_key = agents.key LIMIT 1000))
FROM agents ORDER BY key
