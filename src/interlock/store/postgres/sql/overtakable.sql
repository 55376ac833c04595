-- Owners that cannot start — their agent is full, paused or unknown, their project is paused, or their plan is paused
-- or in an edit cycle — with the deferred item of this agent, or of anyone, that could start in their place. Read
-- only; decided again under lock.
-- Owners that no claim may overtake are left out here already, else within the limit they would hide others.
WITH RECURSIVE owed(agent_key) AS (
    SELECT min(agent_key) FROM interlock.items WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> ''
    UNION ALL
    SELECT (SELECT min(i.agent_key) FROM interlock.items i
        WHERE i.status = 'pending' AND i.lane IS NOT NULL AND i.agent_key <> '' AND i.agent_key > owed.agent_key)
    FROM owed WHERE owed.agent_key IS NOT NULL
),
blocked_agent AS (
    SELECT agent_key FROM owed
    WHERE agent_key IS NOT NULL AND agent_key <> %(agent)s AND NOT EXISTS (
        SELECT 1 FROM interlock.agents a WHERE a.key = owed.agent_key AND a.paused_why IS NULL
            AND (a.max_concurrency IS NULL OR a.max_concurrency > (
                SELECT count(*) - least(count(*) FILTER (WHERE r.type = 'plan.edit'), 1) FROM interlock.items r
                WHERE r.status = 'in_progress' AND r.due_us IS NOT NULL AND r.run_agent = a.key)))
),
blocked(id, lane) AS (
    SELECT i.id, i.lane FROM blocked_agent b JOIN interlock.items i ON i.agent_key = b.agent_key
        AND i.status = 'pending' AND i.lane IS NOT NULL AND i.agent_key <> '' AND i.due_us IS NULL
        AND i.position = 2147483647 AND NOT (i.retry_lane = 'keep' AND i.attempt > 0)
    UNION
    SELECT i.id, i.lane FROM interlock.paused_projects p JOIN interlock.items i ON i.project = p.project
        AND i.status = 'pending' AND i.lane IS NOT NULL AND i.due_us IS NULL
        AND i.position = 2147483647 AND NOT (i.retry_lane = 'keep' AND i.attempt > 0)
    UNION
    SELECT i.id, i.lane FROM interlock.plans p JOIN interlock.items i ON i.plan = p.id
        AND i.status = 'pending' AND i.lane IS NOT NULL AND i.plan IS NOT NULL AND i.due_us IS NULL
        AND i.position = 2147483647 AND NOT (i.retry_lane = 'keep' AND i.attempt > 0)
    WHERE p.ended_us IS NULL AND (p.cycle_us IS NOT NULL OR p.paused_why IS NOT NULL)
),
rival AS (
    SELECT blocked.id AS owner, (
        SELECT d.id FROM interlock.items d
        WHERE d.lane = blocked.lane AND d.status = 'deferred' AND d.agent_key IN ('', %(agent)s)
            AND d.position = 2147483647
            AND (%(types)s::text[] IS NULL OR d.type = ANY(%(types)s))
            AND (d.labels IS NULL OR d.labels <@ %(labels)s::text[])
            AND d.project NOT IN (SELECT project FROM interlock.paused_projects)
            AND (d.plan IS NULL OR EXISTS (SELECT 1 FROM interlock.gates g WHERE g.plan = d.plan AND g.open))
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 1) AS item
    FROM blocked
)
SELECT rival.item, rival.owner FROM rival JOIN interlock.items i ON i.id = rival.item
WHERE %(only)s::bigint IS NULL OR rival.item = %(only)s ORDER BY i.sort_key LIMIT %(limit)s
