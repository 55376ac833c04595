-- The free capacity of a pool.
SELECT max_concurrency - running FROM interlock.pool_runs WHERE name = %(pool)s
