-- Lock an agent with a limit, so that its claims run one by one and the limit holds. The count is a later statement.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us,
    CASE WHEN wall_us > coalesce(%(now_us)s, interlock.clock_us()) THEN wall_us END, wall_why, pool, overtake_after_s
FROM interlock.agents
WHERE key = %(agent)s FOR NO KEY UPDATE
