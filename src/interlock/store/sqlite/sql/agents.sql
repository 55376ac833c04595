-- Every agent with what it runs and what waits for it by name.
SELECT key, name, max_concurrency, types, labels, paused_why, seen_us,
    (SELECT count(*) FROM items WHERE status = 'in_progress' AND due_us IS NOT NULL AND run_agent = agents.key),
    (SELECT count(*) FROM items WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = agents.key)
        + (SELECT count(*) FROM plans p JOIN items t ON t.plan = p.id AND t.status = 'pending' AND t.due_us IS NULL
            AND t.plan IS NOT NULL AND t.agent_key = agents.key WHERE p.status = 'running')
FROM agents ORDER BY key
