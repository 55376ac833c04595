-- The newest runs: of those that go on and of those that ended the last :most are looked through, by lane if one is given and
-- by the beginning of their workers' names. The inner order decides which are found first; no more are read than needed for :limit.
SELECT * FROM (
    SELECT run, id AS item, lane, run_agent, run_worker, 'running', '', run_started_us, NULL, status
    FROM (SELECT * FROM items WHERE status = 'in_progress' COLLATE NOCASE ORDER BY id DESC LIMIT :most)
    WHERE (:lane IS NULL OR lane = :lane) AND substr(coalesce(run_worker, ''), 1, length(:worker)) = :worker
    ORDER BY run DESC LIMIT :limit)
UNION ALL
SELECT * FROM (
    SELECT r.run, r.item, i.lane, r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us, i.status
    FROM (SELECT * FROM runs ORDER BY run DESC LIMIT :most) AS r CROSS JOIN items AS i ON i.id = r.item
    WHERE (:lane IS NULL OR i.lane = :lane) AND substr(coalesce(r.worker, ''), 1, length(:worker)) = :worker
    LIMIT :limit)
ORDER BY 1 DESC LIMIT :limit
