-- Every agent with the numbers of its runs, of items that it may claim by name, and of items for it that wait behind others of their
-- lanes, the latter two counted up to a limit. Of an agent without a claim, also when the oldest of the first such items was added.
SELECT a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us,
    CASE WHEN a.wall_us > coalesce(%(now_us)s, interlock.clock_us()) THEN a.wall_us END, a.wall_why, a.pool, a.overtake_after_s,
    (SELECT count(*) FROM interlock.items WHERE status = 'in_progress' AND run_agent = a.key),
    (SELECT count(*) FROM (
        SELECT FROM interlock.queued q WHERE q.agent_key = a.key
        ORDER BY q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 1000) AS items), r.max_concurrency, r.running,
    (SELECT count(*) FROM (
        SELECT FROM interlock.items d WHERE d.status = 'deferred' AND d.agent_key = a.key
        ORDER BY d.agent_key, d.lane, d.position, d.ticket, d.id LIMIT 1000) AS items),
    CASE WHEN a.seen_us IS NULL THEN (SELECT min((SELECT i.created_us FROM interlock.items i WHERE i.id = first.id)) FROM (
        (SELECT q.id FROM interlock.queued q WHERE q.agent_key = a.key
            ORDER BY q.agent_key, q.project, q.type, q.labels, q.plan, q.sort_key LIMIT 20)
        UNION ALL
        (SELECT d.id FROM interlock.items d WHERE d.status = 'deferred' AND d.agent_key = a.key
            ORDER BY d.agent_key, d.lane, d.position, d.ticket, d.id LIMIT 20)) AS first) END
FROM interlock.agents a LEFT JOIN interlock.pool_runs r ON r.name = a.pool ORDER BY a.key
