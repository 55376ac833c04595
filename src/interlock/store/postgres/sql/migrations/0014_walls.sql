-- Walls: an agent whose run has met a limit from outside, as a quota, starts nothing until that is over.
-- Serves: 14

ALTER TABLE interlock.agents ADD COLUMN wall_us bigint;
ALTER TABLE interlock.agents ADD COLUMN wall_why text;

-- Owners that may be overtaken, each with until when it cannot start: for ever, as far as can be known, or until its agent's wall is
-- over; null if it can. No position orders their lane, no retry keeps it.
CREATE OR REPLACE VIEW interlock.stuck_owners AS
    SELECT id, lane, CASE
        WHEN NOT EXISTS (SELECT FROM interlock.ready r WHERE r.id = o.id)
            OR (agent_key <> '' AND NOT EXISTS (SELECT FROM interlock.free_agents f WHERE f.key = o.agent_key))
        THEN 9223372036854775807
        ELSE (SELECT a.wall_us FROM interlock.agents a WHERE a.key = o.agent_key) END AS until_us
    FROM interlock.items o
    WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL AND status = 'pending' AND due_us IS NULL
        AND position = 2147483647 AND NOT (retry_lane = 'keep' AND attempt > 0);
