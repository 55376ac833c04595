-- Walls: an agent whose run has met a limit from outside, as a quota, starts nothing until that is over.
-- Serves: 11

ALTER TABLE agents ADD COLUMN wall_us INTEGER;
ALTER TABLE agents ADD COLUMN wall_why TEXT;

-- Owners that may be overtaken, each with until when it cannot start: for ever, as far as can be known, or until its agent's
-- wall is over; null if it can. No position orders their lane, no retry keeps it.
DROP VIEW stuck_owners;
CREATE VIEW stuck_owners AS
SELECT id, lane, CASE
    WHEN NOT EXISTS (SELECT 1 FROM ungated WHERE ungated.id = owners.id)
        OR (agent_key <> '' AND NOT EXISTS (SELECT 1 FROM free_agents WHERE free_agents.key = owners.agent_key))
    THEN 9223372036854775807
    ELSE (SELECT wall_us FROM agents WHERE agents.key = owners.agent_key) END AS until_us
FROM owners
WHERE status = 'pending' AND due_us IS NULL AND position = 2147483647 AND NOT (retry_lane = 'keep' AND attempt > 0);
