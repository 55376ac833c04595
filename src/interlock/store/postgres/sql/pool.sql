-- One pool with the number of its agents' runs, and the agents.
SELECT r.name, r.max_concurrency, r.running, ARRAY(SELECT a.name FROM interlock.agents a WHERE a.pool = r.name ORDER BY a.key)
FROM interlock.pool_runs r WHERE r.name = %(pool)s
