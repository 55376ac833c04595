-- Increase counters.
INSERT INTO metric_counts (metric, value, labels, n)
SELECT r.value ->> 0, r.value ->> 1, r.value ->> 2, r.value ->> 3 FROM json_each(:rows) AS r WHERE true
ON CONFLICT (metric, value, labels) DO UPDATE SET n = n + excluded.n
