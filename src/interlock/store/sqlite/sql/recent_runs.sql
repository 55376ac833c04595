-- Runs that go on, and those of the last :most that ended; on one lane, if it is given, and of workers whose names begin
-- with a text. The newest first.
SELECT run, id AS item, lane, run_agent, run_worker, 'running', '', run_started_us, NULL, status FROM items
WHERE run IS NOT NULL AND (:lane IS NULL OR lane = :lane) AND substr(coalesce(run_worker, ''), 1, length(:worker)) = :worker
UNION ALL
SELECT r.run, r.item, i.lane, r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us, i.status
FROM (SELECT * FROM runs ORDER BY run DESC LIMIT :most) r JOIN items i ON i.id = r.item
WHERE (:lane IS NULL OR i.lane = :lane) AND substr(coalesce(r.worker, ''), 1, length(:worker)) = :worker
ORDER BY 1 DESC
