-- One agent's settings.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us, wall_us, wall_why, pool, overtake_after_s FROM agents WHERE key = :key
