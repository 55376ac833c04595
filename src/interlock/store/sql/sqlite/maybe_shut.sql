-- Whether an owner that waits for another agent, or a paused project, could be keeping a lane shut.
SELECT EXISTS (
    SELECT 1 FROM items WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> '' AND agent_key <> ?
) OR EXISTS (SELECT 1 FROM paused_projects)
