-- The next items to be claimed, the best sort key first: ready ones, but not those whose agent is paused or at a quota limit. It skips
-- from one queue to the next, through a bounded number of queues. Each look-up is a separate subquery, as in prunable_items.
WITH RECURSIVE queues(agent_key, project, type, labels, plan, first, n) AS (
    SELECT '' COLLATE "C", '' COLLATE "C", '' COLLATE "C", '{}'::text[] COLLATE "C", 0::bigint, 0::bigint, 0
    UNION ALL
    SELECT next.*, last.n + 1 FROM queues AS last CROSS JOIN LATERAL (
        SELECT q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key FROM interlock.queued q
        WHERE (q.agent_key, q.project, q.type, q.labels, q.plan) > (last.agent_key, last.project, last.type, last.labels, last.plan)
        ORDER BY q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1
    ) AS next
    WHERE last.n < %(queues)s
),
-- The best items of all queues are in the queues with the best first items, in at most as many of them.
best AS (
    SELECT q.agent_key, q.project, q.type, q.labels, q.plan FROM queues AS q
    WHERE q.project <> '' AND q.project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (q.plan = 0 OR (SELECT g.open FROM interlock.gates g WHERE g.plan = q.plan))
        AND (SELECT a.paused_why IS NOT NULL OR a.wall_us > coalesce(%(now_us)s, interlock.clock_us())
            FROM interlock.agents a WHERE a.key = q.agent_key) IS NOT TRUE
    ORDER BY q.first LIMIT (SELECT %(limit)s::integer)
),
found AS MATERIALIZED (
    SELECT r.id FROM best AS q CROSS JOIN LATERAL (
        SELECT i.id, i.sort_key FROM interlock.queued i
        WHERE i.agent_key = q.agent_key AND i.project = q.project AND i.type = q.type AND i.labels = q.labels AND i.plan = q.plan
        ORDER BY i.sort_key LIMIT (SELECT %(limit)s::integer)
    ) AS r
    ORDER BY r.sort_key, r.id LIMIT (SELECT %(limit)s::integer)
)
SELECT * FROM interlock.items WHERE id = ANY(ARRAY(SELECT id FROM found)) ORDER BY sort_key, id
