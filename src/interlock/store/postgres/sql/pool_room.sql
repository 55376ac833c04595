-- How many runs a pool has room for.
SELECT max_concurrency - running FROM interlock.pool_runs WHERE name = %(pool)s
