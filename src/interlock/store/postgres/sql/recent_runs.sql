-- The newest runs within a window, filtered by their lane, held or only observed, and agent if given and by the prefix of their workers' names, and when their items
-- were added. The last `most` live runs and as many ended ones below `before` are searched. Items are looked up one by one, and no more
-- runs are read than the limit needs.
(SELECT run, id AS item, coalesce(lane, observed_lane), run_agent, run_worker, 'running', '', run_started_us, NULL::bigint, status, created_us FROM (
    SELECT * FROM interlock.items WHERE status = 'in_progress' ORDER BY -id LIMIT (SELECT %(most)s::integer)
) AS live
WHERE (%(lane)s::text IS NULL OR coalesce(lane, observed_lane) = %(lane)s) AND (%(agent)s::text IS NULL OR run_agent = %(agent)s)
    AND starts_with(coalesce(run_worker, ''), %(worker)s) AND run_started_us < %(until)s
ORDER BY run DESC LIMIT %(limit)s)
UNION ALL
(SELECT r.run, r.item, i.lane, r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us, i.status, i.created_us
FROM (SELECT * FROM interlock.runs WHERE run < %(before)s ORDER BY run DESC LIMIT (SELECT %(most)s::integer)) AS r
    CROSS JOIN LATERAL (SELECT coalesce(lane, observed_lane) AS lane, status, created_us FROM interlock.items WHERE id = r.item OFFSET 0) AS i
WHERE starts_with(coalesce(r.worker, ''), %(worker)s) AND (%(lane)s::text IS NULL OR i.lane = %(lane)s)
    AND (%(agent)s::text IS NULL OR r.agent = %(agent)s) AND r.ended_us >= %(since)s AND r.started_us < %(until)s
ORDER BY r.run DESC LIMIT %(limit)s)
ORDER BY 1 DESC LIMIT %(limit)s
