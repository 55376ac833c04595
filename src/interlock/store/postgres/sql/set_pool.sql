-- Set the most runs that the agents of a pool may have together.
INSERT INTO interlock.pools (name, max_concurrency) VALUES (%(name)s, %(max_concurrency)s)
ON CONFLICT (name) DO UPDATE SET max_concurrency = excluded.max_concurrency
