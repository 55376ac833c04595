-- The number of items to be claimed before this one, up to :limit: those with a better sort key in the queues of its agent and of anyone.
WITH RECURSIVE queues(item) AS (
    SELECT (SELECT q.id FROM queued q WHERE q.agent_key = whose.agent
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1)
    FROM (SELECT '' AS agent UNION SELECT :agent) AS whose
    UNION ALL
    SELECT coalesce(
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project = last.project AND q.type = last.type
            AND q.labels = last.labels AND q.plan > last.plan ORDER BY q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project = last.project AND q.type = last.type
            AND q.labels > last.labels ORDER BY q.labels, q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project = last.project AND q.type > last.type
            ORDER BY q.type, q.labels, q.plan, q.sort_key LIMIT 1),
        (SELECT q.id FROM queued q WHERE q.agent_key = last.agent_key AND q.project > last.project
            ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1))
    FROM queues CROSS JOIN queue_of last ON last.id = queues.item
)
SELECT count(*) FROM (
    SELECT 1 FROM queues CROSS JOIN queue_of first ON first.id = queues.item CROSS JOIN queued q
        ON q.agent_key = first.agent_key AND q.project = first.project AND q.type = first.type AND q.labels = first.labels
            AND q.plan = first.plan AND q.sort_key < :sort_key
    WHERE first.project NOT IN (SELECT project FROM paused_projects) AND (first.plan = 0 OR first.plan IN (SELECT id FROM open_plans))
    LIMIT :limit)
