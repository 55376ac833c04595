-- The number of items to be claimed before this one, up to a limit: those with a better sort key in the queues of its agent and of anyone.
WITH RECURSIVE queues(agent_key, project, type, labels, plan) AS (
    SELECT whose.agent COLLATE "C", '' COLLATE "C", '' COLLATE "C", '{}'::text[] COLLATE "C", 0::bigint FROM (SELECT '' AS agent UNION SELECT %(agent)s) AS whose
    UNION ALL
    SELECT next.* FROM queues AS last CROSS JOIN LATERAL (
        SELECT q.agent_key, q.project, q.type, q.labels, q.plan FROM interlock.queued q
        WHERE q.agent_key = last.agent_key AND (q.project, q.type, q.labels, q.plan) > (last.project, last.type, last.labels, last.plan)
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1
    ) AS next
)
SELECT count(*) FROM (
    SELECT FROM queues AS q CROSS JOIN LATERAL (
        SELECT FROM interlock.queued i
        WHERE i.agent_key = q.agent_key AND i.project = q.project AND i.type = q.type AND i.labels = q.labels AND i.plan = q.plan
            AND i.sort_key < %(sort_key)s
        ORDER BY i.sort_key LIMIT (SELECT %(limit)s::integer)
    ) AS ahead
    WHERE q.project <> '' AND q.project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (q.plan = 0 OR (SELECT g.open FROM interlock.gates g WHERE g.plan = q.plan))
    LIMIT (SELECT %(limit)s::integer)
) AS counted
