-- One agent with the numbers of its runs and of items that wait for it by name, the latter counted up to a limit.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > :now_us THEN a.wall_us END, a.wall_why, a.pool, a.overtake_after_s,
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = a.key),
    (SELECT count(*) FROM (SELECT 1 FROM queued q WHERE q.agent_key = a.key LIMIT 1000)), r.max_concurrency, r.running
FROM agents a LEFT JOIN pool_runs r ON r.name = a.pool WHERE a.key = :agent
