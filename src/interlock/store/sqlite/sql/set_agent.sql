-- What an agent can do, and how much at once; a wall stays unless the agent is resumed.
INSERT INTO agents (key, name, max_concurrency, types, labels, paused_why, pool)
VALUES (:key, :name, :max_concurrency, :types, :labels, :paused_why, :pool)
ON CONFLICT (key) DO UPDATE SET name = excluded.name, max_concurrency = excluded.max_concurrency,
    types = excluded.types, labels = excluded.labels, paused_why = excluded.paused_why, pool = excluded.pool,
    wall_us = iif(:resumed, NULL, wall_us)
