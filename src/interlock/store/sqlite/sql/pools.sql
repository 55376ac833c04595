-- Every pool with the number of its agents' runs, and the agents.
SELECT r.name, r.max_concurrency, r.running,
    (SELECT json_group_array(name) FROM (SELECT a.name FROM agents a WHERE a.pool = r.name ORDER BY a.key))
FROM pool_runs r ORDER BY r.name
