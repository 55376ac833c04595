-- Whether a claim would find an item, locked or not. Like a claim, it reads one row for each queue of this agent and of anyone.
WITH RECURSIVE queues(agent_key, project, type, labels, plan) AS (
    SELECT i.agent_key, i.project, i.type, i.labels, i.plan FROM interlock.queued i WHERE i.id = %(only)s AND i.agent_key IN ('', %(agent)s)
    UNION ALL
    SELECT whose.agent COLLATE "C", '' COLLATE "C", '' COLLATE "C", '{}'::text[] COLLATE "C", 0::bigint FROM unnest(ARRAY['', %(agent)s]) AS whose(agent) WHERE %(only)s::bigint IS NULL
    UNION ALL
    SELECT next.* FROM queues AS last CROSS JOIN LATERAL (
        SELECT q.agent_key, q.project, q.type, q.labels, q.plan FROM interlock.queued q
        WHERE q.agent_key = last.agent_key AND (q.project, q.type, q.labels, q.plan) > (last.project, last.type, last.labels, last.plan)
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1
    ) AS next
    WHERE %(only)s::bigint IS NULL
)
SELECT EXISTS (SELECT FROM queues q
    WHERE q.project <> '' AND q.project NOT IN (SELECT project FROM interlock.paused_projects)
        AND interlock.fits(q.type, q.labels, %(types)s, %(labels)s, %(edits)s)
        AND (q.plan = 0 OR (SELECT g.open FROM interlock.gates g WHERE g.plan = q.plan)))
