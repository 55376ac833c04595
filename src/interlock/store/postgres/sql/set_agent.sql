-- What an agent can do and how much at once; a wall stays unless the agent is resumed.
INSERT INTO interlock.agents (key, name, max_concurrency, types, labels, paused_why, pool)
VALUES (%(key)s, %(name)s, %(max_concurrency)s, %(types)s::text[], %(labels)s::text[], %(paused_why)s, %(pool)s)
ON CONFLICT (key) DO UPDATE SET name = excluded.name, max_concurrency = excluded.max_concurrency,
    types = excluded.types, labels = excluded.labels, paused_why = excluded.paused_why, pool = excluded.pool,
    wall_us = CASE WHEN NOT %(resumed)s THEN agents.wall_us END
