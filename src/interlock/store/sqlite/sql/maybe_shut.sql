-- Whether an owner that waits for another agent, a paused project or a plan that gives out no tasks could be keeping a
-- lane shut.
SELECT EXISTS (
    SELECT 1 FROM items WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> '' AND agent_key <> ?
) OR EXISTS (SELECT 1 FROM paused_projects) OR (EXISTS (
    SELECT 1 FROM plans WHERE ended_us IS NULL AND (cycle_us IS NOT NULL OR paused_why IS NOT NULL)
) AND EXISTS (
    SELECT 1 FROM items WHERE status = 'pending' AND lane IS NOT NULL AND plan IS NOT NULL
))
