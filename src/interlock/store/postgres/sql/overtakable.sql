-- Lanes whose owner cannot start — its agent is full, paused or unknown, its project is paused, or its plan gives out no
-- tasks — with the first deferred item that this wish could start in its place. Read only; decided again under lock.
-- It begins with the lines that this agent, or anyone, waits in: owners that nobody of them waits for cost nothing.
WITH waited AS MATERIALIZED (
    SELECT lane FROM interlock.items WHERE status = 'deferred' AND agent_key = %(agent)s AND position = 2147483647
    UNION
    SELECT lane FROM interlock.items WHERE status = 'deferred' AND agent_key = '' AND position = 2147483647
),
shut AS MATERIALIZED (
    SELECT o.id, o.lane FROM waited CROSS JOIN LATERAL (
        SELECT * FROM interlock.items i
        WHERE i.lane = waited.lane AND i.status IN ('pending', 'in_progress') AND i.lane IS NOT NULL
    ) AS o
    WHERE o.status = 'pending' AND o.due_us IS NULL AND o.position = 2147483647
        AND NOT (o.retry_lane = 'keep' AND o.attempt > 0)
        AND (o.project IN (SELECT project FROM interlock.paused_projects)
            OR (o.plan IS NOT NULL AND NOT EXISTS (SELECT FROM interlock.gates g WHERE g.plan = o.plan AND g.open))
            OR (o.agent_key NOT IN ('', %(agent)s) AND NOT EXISTS (
                SELECT FROM interlock.agents a WHERE a.key = o.agent_key AND a.paused_why IS NULL
                    AND (a.max_concurrency IS NULL OR a.max_concurrency > (
                        SELECT count(*) - least(count(*) FILTER (WHERE r.type = 'plan.edit'), 1) FROM interlock.items r
                        WHERE r.status = 'in_progress' AND r.run_agent = a.key)))))
)
SELECT rival.id, shut.id FROM shut CROSS JOIN LATERAL (
    SELECT d.id, d.sort_key FROM interlock.items d
    WHERE d.lane = shut.lane AND d.status = 'deferred' AND d.agent_key IN ('', %(agent)s) AND d.position = 2147483647
        AND interlock.fits(d.type, d.labels, %(types)s, %(labels)s, %(edits)s)
        AND d.project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (d.plan IS NULL OR EXISTS (SELECT FROM interlock.gates g WHERE g.plan = d.plan AND g.open))
    ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 1
) AS rival
WHERE %(only)s::bigint IS NULL OR rival.id = %(only)s ORDER BY rival.sort_key LIMIT %(limit)s
