-- One agent with how many runs it has.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > coalesce(%(now_us)s, interlock.clock_us()) THEN a.wall_us END, a.wall_why, a.pool,
    (SELECT count(*) FROM interlock.items WHERE status = 'in_progress' AND run_agent = a.key), 0, r.max_concurrency, r.running
FROM interlock.agents a LEFT JOIN interlock.pool_runs r ON r.name = a.pool WHERE a.key = %(agent)s
