-- Write the named parts of an agent. The others are unchanged. A new agent starts with these.
INSERT INTO agents (key, name, max_concurrency, types, labels, paused_why, pool, overtake_after_s)
VALUES (:key, :name, :max_concurrency, :types, :labels, :paused_why, :pool, :overtake_after_s)
ON CONFLICT (key) DO UPDATE SET
    name = iif('name' IN (SELECT value FROM json_each(:named)), excluded.name, name),
    max_concurrency = iif('max_concurrency' IN (SELECT value FROM json_each(:named)), excluded.max_concurrency, max_concurrency),
    types = iif('types' IN (SELECT value FROM json_each(:named)), excluded.types, types),
    labels = iif('labels' IN (SELECT value FROM json_each(:named)), excluded.labels, labels),
    paused_why = iif('paused_why' IN (SELECT value FROM json_each(:named)), excluded.paused_why, paused_why),
    pool = iif('pool' IN (SELECT value FROM json_each(:named)), excluded.pool, pool),
    overtake_after_s = iif('overtake_after_s' IN (SELECT value FROM json_each(:named)), excluded.overtake_after_s, overtake_after_s),
    wall_us = iif('wall_us' IN (SELECT value FROM json_each(:named)), NULL, wall_us)
