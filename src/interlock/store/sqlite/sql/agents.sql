-- Every agent with the numbers of its runs, of items that it may claim by name, and of items for it that wait behind others of their
-- lanes, the latter two counted up to a limit. Of an agent without a claim, also when the oldest of the first such items was added.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > :now_us THEN a.wall_us END, a.wall_why, a.pool, a.overtake_after_s,
    (SELECT count(*) FROM items INDEXED BY items_running WHERE run IS NOT NULL AND run_agent = a.key),
    (SELECT count(*) FROM (SELECT 1 FROM queued q WHERE q.agent_key = a.key LIMIT 1000)), r.max_concurrency, r.running,
    (SELECT count(*) FROM (SELECT 1 FROM items d INDEXED BY items_namesakes WHERE d.status = 'deferred' AND d.agent_key = a.key LIMIT 1000)),
    CASE WHEN a.seen_us IS NULL THEN (SELECT min(i.created_us) FROM items i WHERE i.id IN (
        SELECT id FROM (SELECT q.id FROM queued q WHERE q.agent_key = a.key LIMIT 20)
        UNION ALL SELECT id FROM (
            SELECT d.id FROM items d INDEXED BY items_namesakes WHERE d.status = 'deferred' AND d.agent_key = a.key LIMIT 20))) END
FROM agents a LEFT JOIN pool_runs r ON r.name = a.pool ORDER BY a.key
