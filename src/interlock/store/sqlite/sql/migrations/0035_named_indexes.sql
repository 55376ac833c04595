-- Views name the index that they read by. After ANALYZE of a store in which all items are alike, SQLite takes an index for useless and
-- reads the whole table, or reads an index that was empty then for one item.
-- Serves: 35
DROP VIEW queued;
-- In a queue: pending, not scheduled, not gated and not blocked. The project or the plan may still hold back the whole queue.
CREATE VIEW queued AS
SELECT id, sort_key, agent_key, project, type, ifnull(labels, '[]') AS labels, ifnull(plan, 0) AS plan FROM items INDEXED BY items_ready
WHERE status = 'pending' AND due_us IS NULL AND gated = 0 AND blocked = 0;

-- The queue of an item, by its id.
CREATE VIEW queue_of AS
SELECT id, sort_key, agent_key, project, type, ifnull(labels, '[]') AS labels, ifnull(plan, 0) AS plan FROM items NOT INDEXED;

DROP VIEW ungated;
-- Items, by their id, that neither their project nor their plan nor their lane's gate nor a block holds back, whatever their status. A
-- deferred item has no flag of its lane yet.
CREATE VIEW ungated AS
SELECT * FROM items NOT INDEXED
WHERE gated = 0 AND blocked = 0 AND project NOT IN (SELECT project FROM paused_projects)
    AND (plan IS NULL OR EXISTS (SELECT 1 FROM open_plans WHERE open_plans.id = items.plan))
    AND (status <> 'deferred' OR NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.lane = items.lane
        AND (blocked = 1 OR (gate_open = 0 AND items.type NOT IN (SELECT value FROM json_each(gate_exempt))))));

DROP VIEW pool_runs;
-- How many runs the agents of each pool have together. One edit of a plan of each agent does not count.
CREATE VIEW pool_runs AS
SELECT p.name, p.max_concurrency, (
    SELECT ifnull(sum((SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items INDEXED BY items_running
        WHERE run IS NOT NULL AND run_agent = a.key)), 0)
    FROM agents a WHERE a.pool = p.name) AS running
FROM pools p;

DROP VIEW free_agents;
-- Agents that may start one more run: known, not paused, below their limit and that of their pool. One edit of a plan does
-- not count.
CREATE VIEW free_agents AS
SELECT key FROM agents
WHERE paused_why IS NULL AND (max_concurrency IS NULL OR max_concurrency > (
    SELECT count(*) - min(count(*) FILTER (WHERE type = 'plan.edit'), 1) FROM items INDEXED BY items_running
    WHERE run IS NOT NULL AND run_agent = agents.key))
    AND (pool IS NULL OR EXISTS (SELECT 1 FROM pool_runs r WHERE r.name = agents.pool AND r.running < r.max_concurrency));

DROP VIEW unstarted_owners;
-- Owners of lanes that have not started: until when one cannot start (for ever, as far as can be known, or until its agent's wall is
-- over; null if it can), whether its agent is unknown or cannot do it, and from when its agent counts as gone, if it shows no sign of life
-- before (null: not at all). `firm`: it is never overtaken, as a position orders its lane or it keeps the lane for its retries.
CREATE VIEW unstarted_owners AS
SELECT id, lane, agent_key, created_us, firm, unable,
    CASE WHEN unable OR NOT EXISTS (SELECT 1 FROM ungated WHERE ungated.id = o.id)
            OR (agent_key <> '' AND NOT EXISTS (SELECT 1 FROM free_agents WHERE free_agents.key = o.agent_key))
        THEN 9223372036854775807 ELSE wall_us END AS until_us,
    CASE WHEN agent IS NULL OR overtake_after_s = 0
            OR EXISTS (SELECT 1 FROM items r INDEXED BY items_running WHERE r.run IS NOT NULL AND r.run_agent = o.agent) THEN NULL
        ELSE max(ifnull(seen_us, created_us) + CAST(ifnull(overtake_after_s, 60) * 1000000 AS INTEGER),
            ifnull((SELECT max(w.seen_us) FROM workers w WHERE w.agent = o.agent) + 30000000, 0)) END AS gone_us
FROM (
    SELECT i.*, a.key AS agent, a.overtake_after_s, a.seen_us, a.wall_us, i.position < 2147483647 OR i.retry_lane = 'keep' AS firm,
        i.agent_key <> '' AND (a.key IS NULL OR (a.types <> '[]' AND i.type NOT IN (SELECT value FROM json_each(a.types)))
            OR (NOT (i.type = 'hold' AND EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value = 'hold'))
                AND EXISTS (SELECT 1 FROM json_each(i.labels) AS l WHERE l.value NOT IN (SELECT value FROM json_each(a.labels))))) AS unable
    FROM owners i LEFT JOIN agents a ON a.key = i.agent_key
    WHERE i.status = 'pending' AND i.due_us IS NULL) AS o;
