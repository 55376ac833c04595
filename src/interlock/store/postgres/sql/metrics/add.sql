-- Increase counters.
INSERT INTO interlock.metric_counts AS c (metric, value, labels, n)
SELECT r ->> 0, r ->> 1, (r ->> 2)::integer, (r ->> 3)::bigint FROM jsonb_array_elements(%(rows)s::jsonb) AS r
ON CONFLICT (metric, value, labels) DO UPDATE SET n = c.n + excluded.n
