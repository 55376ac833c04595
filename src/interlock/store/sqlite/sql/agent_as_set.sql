-- One agent's settings, and with :asks whether there is any budget.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us, wall_us, wall_why, pool, overtake_after_s,
    iif(:asks, EXISTS (SELECT 1 FROM budgets), 0)
FROM agents WHERE key = :key
