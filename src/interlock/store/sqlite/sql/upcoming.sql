-- The next items to be claimed, the best sort key first: ready ones, but not those whose agent is paused or at a quota limit. It skips
-- from the first item of one queue to the first of the next, through a bounded number of queues.
WITH RECURSIVE queues(item, n) AS (
    SELECT (SELECT q.id FROM queued q ORDER BY q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1), 1
    UNION ALL
    SELECT coalesce(
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project = last.project AND q.type = last.type
            AND q.labels = last.labels AND q.plan > last.plan ORDER BY q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project = last.project AND q.type = last.type
            AND q.labels > last.labels ORDER BY q.labels, q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project = last.project AND q.type > last.type
            ORDER BY q.type, q.labels, q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project > last.project
            ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key > last.agent_key
            ORDER BY q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1)), n + 1
    FROM queues CROSS JOIN queue_of last ON last.id = queues.item WHERE n < :queues
),
-- The best items of all queues are in the queues with the best first items, in at most as many of them.
best(agent_key, project, type, labels, plan) AS (
    SELECT q.agent_key, q.project, q.type, q.labels, q.plan FROM queues CROSS JOIN queue_of q ON q.id = queues.item
    WHERE q.project NOT IN (SELECT project FROM paused_projects) AND (q.plan = 0 OR q.plan IN (SELECT id FROM open_plans))
        AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.key = q.agent_key AND (a.paused_why IS NOT NULL OR a.wall_us > :now_us))
    ORDER BY q.sort_key LIMIT :limit
)
SELECT i.* FROM best CROSS JOIN items i ON i.id IN (
    SELECT q.id FROM queued q WHERE q.agent_key = best.agent_key AND q.project = best.project AND q.type = best.type
        AND q.labels = best.labels AND q.plan = best.plan ORDER BY q.sort_key LIMIT :limit)
ORDER BY i.sort_key, i.id LIMIT :limit
