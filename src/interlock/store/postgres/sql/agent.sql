-- One agent with the numbers of its runs and of items that wait for it by name, the latter counted up to a limit.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > coalesce(%(now_us)s, interlock.clock_us()) THEN a.wall_us END, a.wall_why, a.pool, a.overtake_after_s,
    (SELECT count(*) FROM interlock.items WHERE status = 'in_progress' AND run_agent = a.key),
    (SELECT count(*) FROM (
        SELECT FROM interlock.queued q WHERE q.agent_key = a.key
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1000) AS items), r.max_concurrency, r.running
FROM interlock.agents a LEFT JOIN interlock.pool_runs r ON r.name = a.pool WHERE a.key = %(agent)s
