-- Whether a claim would find anything, read without taking the write lock.
SELECT EXISTS (
    SELECT 1 FROM items
    WHERE status = 'pending' AND due_us IS NULL AND agent_key = :agent
        AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
        AND project NOT IN (SELECT project FROM paused_projects)
) OR EXISTS (
    SELECT 1 FROM items
    WHERE status = 'pending' AND due_us IS NULL AND agent_key = ''
        AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
        AND project NOT IN (SELECT project FROM paused_projects)
)
