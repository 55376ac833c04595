-- Restart the time limit for a claim of ready items of a paused project or for a paused agent. The same transaction lifts the pause.
-- The cost grows with the ready items that have such a limit.
UPDATE items SET claim_by_us = :now_us + CAST(round(claim_within_s * 1000000) AS INTEGER)
WHERE claim_by_us IS NOT NULL
    AND (project = (SELECT project FROM paused_projects WHERE project = :project)
        OR agent_key = (SELECT key FROM agents WHERE key = :agent AND paused_why IS NOT NULL))
