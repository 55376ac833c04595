-- Whether a claim of one item would find it, read without taking the write lock.
SELECT EXISTS (
    SELECT 1 FROM items
    WHERE id = :item AND status = 'pending' AND due_us IS NULL AND agent_key IN ('', :agent)
        AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
        AND project NOT IN (SELECT project FROM paused_projects)
        AND (plan IS NULL OR EXISTS (SELECT 1 FROM plans p
            WHERE p.id = items.plan AND p.status = 'running' AND p.cycle_us IS NULL AND p.paused_why IS NULL))
)
