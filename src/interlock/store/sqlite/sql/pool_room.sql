-- How many runs a pool has room for.
SELECT max_concurrency - running FROM pool_runs WHERE name = :pool
