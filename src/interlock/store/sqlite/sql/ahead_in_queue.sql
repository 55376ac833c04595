-- How many ready items would be claimed before this one.
SELECT (SELECT count(*) FROM items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key IN ('', :agent) AND sort_key < :sort_key)
    + (SELECT count(*) FROM plans p JOIN items t ON t.plan = p.id AND t.status = 'pending' AND t.due_us IS NULL
        AND t.plan IS NOT NULL AND t.agent_key IN ('', :agent) AND t.sort_key < :sort_key
    WHERE p.status = 'running' AND p.cycle_us IS NULL AND p.paused_why IS NULL)
