-- Restart the time limit for a claim of ready items of a paused project or for a paused agent. The same transaction lifts the pause.
-- Rows are locked in order of id, as when unclaimed items are ended. The cost grows with the ready items that have such a limit.
WITH held AS MATERIALIZED (
    SELECT i.id FROM interlock.items i WHERE i.status = 'pending' AND i.claim_by_us IS NOT NULL
        AND (i.project = (SELECT project FROM interlock.paused_projects WHERE project = %(project)s)
            OR i.agent_key = (SELECT key FROM interlock.agents WHERE key = %(agent)s AND paused_why IS NOT NULL))
    ORDER BY i.id FOR NO KEY UPDATE
)
UPDATE interlock.items AS i SET claim_by_us = coalesce(%(now_us)s, interlock.clock_us()) + (i.claim_within_s * 1000000)::bigint
FROM held WHERE i.id = held.id AND i.status = 'pending' AND i.claim_by_us IS NOT NULL
