-- Write the named parts of an agent. The others are unchanged. A new agent starts with these.
INSERT INTO interlock.agents AS a (key, name, max_concurrency, types, labels, paused_why, pool, overtake_after_s)
VALUES (%(key)s, %(name)s, %(max_concurrency)s, %(types)s::text[], %(labels)s::text[], %(paused_why)s, %(pool)s, %(overtake_after_s)s)
ON CONFLICT (key) DO UPDATE SET
    name = CASE WHEN 'name' = ANY(%(named)s::text[]) THEN excluded.name ELSE a.name END,
    max_concurrency = CASE WHEN 'max_concurrency' = ANY(%(named)s::text[]) THEN excluded.max_concurrency ELSE a.max_concurrency END,
    types = CASE WHEN 'types' = ANY(%(named)s::text[]) THEN excluded.types ELSE a.types END,
    labels = CASE WHEN 'labels' = ANY(%(named)s::text[]) THEN excluded.labels ELSE a.labels END,
    paused_why = CASE WHEN 'paused_why' = ANY(%(named)s::text[]) THEN excluded.paused_why ELSE a.paused_why END,
    pool = CASE WHEN 'pool' = ANY(%(named)s::text[]) THEN excluded.pool ELSE a.pool END,
    overtake_after_s = CASE WHEN 'overtake_after_s' = ANY(%(named)s::text[]) THEN excluded.overtake_after_s ELSE a.overtake_after_s END,
    wall_us = CASE WHEN 'wall_us' = ANY(%(named)s::text[]) THEN NULL ELSE a.wall_us END
