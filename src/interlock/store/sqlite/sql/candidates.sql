-- Items that a claim may start, the best first: ready ones or, with :overtaking, deferred ones with the owner of their lane that cannot
-- start or, with its agent, that waits for a gone agent. A claim reads them without a lock to see whether it needs one, and again under
-- the lock. Queues that budgets bar are named as `project type`, where `*` is any.
WITH RECURSIVE fitting AS NOT MATERIALIZED (
    SELECT id FROM items
    WHERE (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
        AND (:edits OR type <> 'plan.edit')
        AND (labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(items.labels) AS needed
            WHERE needed.value NOT IN (SELECT value FROM json_each(:labels))))
),
-- Items for this agent and items for anyone are searched separately, so that items for others cost nothing.
meant_for(agent_key) AS (VALUES (:agent), ('')),
-- Agent, project, type, labels and plan identify a queue, which matches as a whole or not. It skips from the first item of one queue to
-- the first of the next, so it reads one item for each queue of this agent and of anyone, however long that is.
queues(item) AS (
    SELECT (SELECT q.id FROM queued q WHERE q.agent_key = meant_for.agent_key
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1)
    FROM meant_for WHERE NOT :overtaking AND :only IS NULL
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
),
-- The best items of all matching queues are in the queues with the best first items, in at most as many of them.
best(agent_key, project, type, labels, plan) AS (
    SELECT q.agent_key, q.project, q.type, q.labels, q.plan
    FROM queues CROSS JOIN queue_of q ON q.id = queues.item CROSS JOIN fitting ON fitting.id = q.id
    WHERE q.project NOT IN (SELECT project FROM paused_projects) AND (q.plan = 0 OR q.plan IN (SELECT id FROM open_plans))
        AND (:barred IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(:barred) AS bar
            WHERE bar.value IN (q.project || ' *', '* ' || q.type, q.project || ' ' || q.type)))
    ORDER BY q.sort_key LIMIT :limit
),
-- Lanes with a deferred item that may overtake. It skips from one lane to the next, however many items wait.
lines(agent_key, lane) AS (
    SELECT agent_key, (SELECT min(d.lane) FROM items d INDEXED BY items_rivals
        WHERE d.status = 'deferred' AND d.position = 2147483647 AND d.agent_key = meant_for.agent_key)
    FROM meant_for
    UNION ALL
    SELECT agent_key, (SELECT min(d.lane) FROM items d INDEXED BY items_rivals
        WHERE d.status = 'deferred' AND d.position = 2147483647 AND d.agent_key = lines.agent_key AND d.lane > lines.lane)
    FROM lines WHERE lane IS NOT NULL
),
-- The first matching item of each line; of a lane's two lines, the one that comes first on the lane.
rivals(item, owner, gone, sort_key, place) AS (
    SELECT i.id, owner.id, iif(ifnull(owner.until_us, 0) <= :now_us, owner.agent_key, NULL), i.sort_key, row_number() OVER (PARTITION BY owner.id ORDER BY i.front DESC, i.ticket, i.id)
    FROM lines CROSS JOIN unstarted_owners owner ON owner.lane = lines.lane AND NOT owner.firm
        AND (owner.until_us > :now_us OR owner.gone_us <= :now_us) CROSS JOIN items i ON i.id = (
        SELECT d.id FROM items d INDEXED BY items_rivals CROSS JOIN ungated ON ungated.id = d.id CROSS JOIN fitting ON fitting.id = d.id
        WHERE d.status = 'deferred' AND d.position = 2147483647 AND d.agent_key = lines.agent_key AND d.lane = lines.lane
        ORDER BY d.front DESC, d.ticket, d.id LIMIT 1)
)
SELECT item, owner, gone FROM (
    SELECT i.id AS item, NULL AS owner, NULL AS gone, i.sort_key
    FROM best CROSS JOIN items i ON i.id IN (
        SELECT q.id FROM queued q WHERE q.agent_key = best.agent_key AND q.project = best.project AND q.type = best.type
            AND q.labels = best.labels AND q.plan = best.plan ORDER BY q.sort_key LIMIT :limit)
    UNION ALL
    SELECT r.id, NULL, NULL, r.sort_key FROM ready r CROSS JOIN fitting ON fitting.id = r.id
    WHERE NOT :overtaking AND r.id = :only AND r.agent_key IN (:agent, '')
    UNION ALL
    SELECT item, owner, gone, sort_key FROM rivals WHERE :overtaking AND place = 1 AND (:only IS NULL OR item = :only)
)
ORDER BY sort_key, item LIMIT :limit
