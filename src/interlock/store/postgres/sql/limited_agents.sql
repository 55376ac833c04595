-- The named agents, and those with any limit, with the numbers of all their runs and of edits of plans.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > coalesce(%(now_us)s, interlock.clock_us()) THEN a.wall_us END, a.wall_why, a.pool, a.overtake_after_s,
    r.running, 0, p.max_concurrency, p.running, r.editing
FROM (
    SELECT * FROM interlock.agents
    WHERE key = ANY(%(named)s::text[]) OR max_concurrency IS NOT NULL OR paused_why IS NOT NULL OR wall_us IS NOT NULL OR pool IS NOT NULL OR key IN (SELECT name FROM interlock.budgets WHERE scope = 'agent') OR types <> '{}' OR labels <> '{}'
    ORDER BY key <> ALL(%(named)s::text[]), key LIMIT %(limit)s
) AS a CROSS JOIN LATERAL (
    SELECT count(*) AS running, count(*) FILTER (WHERE type = 'plan.edit') AS editing FROM interlock.items
    WHERE status = 'in_progress' AND run_agent = a.key
) AS r LEFT JOIN interlock.pool_runs p ON p.name = a.pool
