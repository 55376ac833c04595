-- Whether a claim would find anything, read without taking the write lock.
SELECT EXISTS (
    SELECT 1 FROM items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = :agent
        AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
        AND project NOT IN (SELECT project FROM paused_projects)
) OR EXISTS (
    SELECT 1 FROM items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
        AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
        AND project NOT IN (SELECT project FROM paused_projects)
) OR EXISTS (
    SELECT 1 FROM plans p JOIN items t ON t.plan = p.id AND t.status = 'pending' AND t.due_us IS NULL
        AND t.plan IS NOT NULL AND t.agent_key IN ('', :agent)
        AND (:types IS NULL OR t.type IN (SELECT value FROM json_each(:types)))
    WHERE p.status = 'running' AND p.cycle_us IS NULL AND p.paused_why IS NULL
        AND p.project NOT IN (SELECT project FROM paused_projects)
)
