-- Owners that cannot start — their agent is full, paused or unknown, their project is paused, or their plan is paused
-- or in an edit cycle — with the deferred item of this agent, or of anyone, that could start in their place. Read
-- only; decided again under lock.
-- Owners that no claim may overtake are left out here already, else within the limit they would hide others.
WITH RECURSIVE owed(agent_key) AS (
    SELECT min(agent_key) FROM items WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> ''
    UNION ALL
    SELECT (SELECT min(i.agent_key) FROM items i
        WHERE i.status = 'pending' AND i.lane IS NOT NULL AND i.agent_key <> '' AND i.agent_key > owed.agent_key)
    FROM owed WHERE owed.agent_key IS NOT NULL
),
blocked_agent AS (
    SELECT agent_key FROM owed
    WHERE agent_key IS NOT NULL AND agent_key <> :agent AND NOT EXISTS (
        SELECT 1 FROM agents a WHERE a.key = owed.agent_key AND a.paused_why IS NULL
            AND (a.max_concurrency IS NULL OR a.max_concurrency > (
                SELECT count(*) - min(count(*) FILTER (WHERE r.type = 'plan.edit'), 1) FROM items r
                WHERE r.status = 'in_progress' AND r.due_us IS NOT NULL AND r.run_agent = a.key)))
),
-- Joins that SQLite does not turn round: most often there is no such project and no such plan.
blocked(id, lane) AS (
    SELECT i.id, i.lane FROM blocked_agent b JOIN items i ON i.agent_key = b.agent_key
        AND i.status = 'pending' AND i.lane IS NOT NULL AND i.agent_key <> '' AND i.due_us IS NULL
        AND i.position = 2147483647 AND NOT (i.retry_lane = 'keep' AND i.attempt > 0)
    UNION
    SELECT i.id, i.lane FROM paused_projects p CROSS JOIN items i ON i.project = p.project
        AND i.status = 'pending' AND i.lane IS NOT NULL AND i.due_us IS NULL
        AND i.position = 2147483647 AND NOT (i.retry_lane = 'keep' AND i.attempt > 0)
    UNION
    SELECT i.id, i.lane FROM plans p CROSS JOIN items i ON i.plan = p.id
        AND i.status = 'pending' AND i.lane IS NOT NULL AND i.plan IS NOT NULL AND i.due_us IS NULL
        AND i.position = 2147483647 AND NOT (i.retry_lane = 'keep' AND i.attempt > 0)
    WHERE p.ended_us IS NULL AND (p.cycle_us IS NOT NULL OR p.paused_why IS NOT NULL)
),
rival AS (
    SELECT blocked.id AS owner, (
        SELECT d.id FROM items d
        WHERE d.lane = blocked.lane AND d.status = 'deferred' AND d.agent_key IN ('', :agent)
            AND d.position = 2147483647
            AND (:types IS NULL OR d.type IN (SELECT value FROM json_each(:types)))
            AND (d.labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(d.labels) AS needed
                WHERE needed.value NOT IN (SELECT value FROM json_each(:labels))))
            AND d.project NOT IN (SELECT project FROM paused_projects)
            AND (d.plan IS NULL OR EXISTS (SELECT 1 FROM plans p
                WHERE p.id = d.plan AND p.status = 'running' AND p.cycle_us IS NULL AND p.paused_why IS NULL))
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 1) AS item
    FROM blocked
)
SELECT rival.item, rival.owner FROM rival JOIN items i ON i.id = rival.item
WHERE :only IS NULL OR rival.item = :only ORDER BY i.sort_key LIMIT :limit
