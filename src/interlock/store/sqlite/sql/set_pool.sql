-- Set the most runs that the agents of a pool may have together.
INSERT INTO pools (name, max_concurrency) VALUES (:name, :max_concurrency)
ON CONFLICT (name) DO UPDATE SET max_concurrency = excluded.max_concurrency
