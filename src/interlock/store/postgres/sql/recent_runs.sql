-- The newest runs: of those that go on and of those that ended the last `most` are looked through, by lane if one is given and
-- by the beginning of their workers' names. Items are looked up one by one, and no more runs are read than needed for the limit.
(SELECT run, id AS item, lane, run_agent, run_worker, 'running', '', run_started_us, NULL::bigint, status FROM (
    SELECT * FROM interlock.items WHERE status = 'in_progress' ORDER BY -id LIMIT (SELECT %(most)s::integer)
) AS live
WHERE (%(lane)s::text IS NULL OR lane = %(lane)s) AND starts_with(coalesce(run_worker, ''), %(worker)s)
ORDER BY run DESC LIMIT %(limit)s)
UNION ALL
(SELECT r.run, r.item, i.lane, r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us, i.status
FROM (SELECT * FROM interlock.runs ORDER BY run DESC LIMIT (SELECT %(most)s::integer)) AS r
    CROSS JOIN LATERAL (SELECT lane, status FROM interlock.items WHERE id = r.item OFFSET 0) AS i
WHERE starts_with(coalesce(r.worker, ''), %(worker)s) AND (%(lane)s::text IS NULL OR i.lane = %(lane)s)
ORDER BY r.run DESC LIMIT %(limit)s)
ORDER BY 1 DESC LIMIT %(limit)s
