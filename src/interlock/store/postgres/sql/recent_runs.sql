-- Runs that go on, and those of the last `most` that ended; on one lane, if it is given, and of workers whose names
-- begin with a text. The newest first.
WITH ended AS MATERIALIZED (SELECT * FROM interlock.runs ORDER BY run DESC LIMIT %(most)s)
SELECT run, id AS item, lane, run_agent, run_worker, 'running', '', run_started_us, NULL, status FROM interlock.items
WHERE status = 'in_progress' AND (%(lane)s::text IS NULL OR lane = %(lane)s)
    AND starts_with(coalesce(run_worker, ''), %(worker)s)
UNION ALL
SELECT r.run, r.item, i.lane, r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us, i.status
FROM ended r JOIN interlock.items i ON i.id = r.item
WHERE (%(lane)s::text IS NULL OR i.lane = %(lane)s) AND starts_with(coalesce(r.worker, ''), %(worker)s)
ORDER BY 1 DESC
