-- Agents that unfinished items name and that do not exist, in order, with the number of these items, counted up to a
-- limit. It skips from one name to the next, over at most :steps names.
WITH RECURSIVE named(key, n) AS (
    SELECT '', 0
    UNION ALL
    SELECT (SELECT next.agent_key FROM (
        SELECT agent_key FROM queued UNION ALL SELECT agent_key FROM items INDEXED BY items_namesakes WHERE status = 'deferred') AS next
        WHERE next.agent_key > named.key ORDER BY next.agent_key LIMIT 1), n + 1
    FROM named WHERE key IS NOT NULL AND n < :steps
)
SELECT key,
    (SELECT count(*) FROM (SELECT 1 FROM queued q WHERE q.agent_key = named.key LIMIT :counted))
    + (SELECT count(*) FROM (
        SELECT 1 FROM items d INDEXED BY items_namesakes WHERE d.status = 'deferred' AND d.agent_key = named.key LIMIT :counted))
FROM named WHERE key <> '' AND (SELECT a.key FROM agents a WHERE a.key = named.key) IS NULL LIMIT :limit
