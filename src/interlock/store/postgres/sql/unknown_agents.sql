-- Agents that unfinished items name and that do not exist, in order, with the number of these items, counted up to a
-- limit. It skips from one name to the next, over at most `steps` names, and looks agents up one by one: a join would lose the order.
WITH RECURSIVE named(key, n) AS (
    SELECT '' COLLATE "C", 0
    UNION ALL
    SELECT least(
        (SELECT q.agent_key FROM interlock.queued q WHERE q.agent_key > named.key ORDER BY q.agent_key LIMIT 1),
        (SELECT d.agent_key FROM interlock.items d WHERE d.status = 'deferred' AND d.agent_key > named.key
            ORDER BY d.agent_key LIMIT 1)), n + 1
    FROM named WHERE key IS NOT NULL AND n < %(steps)s
)
SELECT key,
    (SELECT count(*) FROM (SELECT FROM interlock.queued q WHERE q.agent_key = named.key
        ORDER BY q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key LIMIT (SELECT %(counted)s::integer)) AS items)
    + (SELECT count(*) FROM (SELECT FROM interlock.items d WHERE d.status = 'deferred' AND d.agent_key = named.key
        ORDER BY d.agent_key, d.lane, d.position, d.ticket, d.id LIMIT (SELECT %(counted)s::integer)) AS items)
FROM named WHERE key <> '' AND (SELECT a.key FROM interlock.agents a WHERE a.key = named.key) IS NULL LIMIT %(limit)s
