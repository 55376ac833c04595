-- The free capacity of a pool.
SELECT max_concurrency - running FROM pool_runs WHERE name = :pool
