-- The newest runs within a window, filtered by their lane, held or only observed, and agent if given and by the prefix of their workers' names, and when their items
-- were added. The last :most live runs and as many ended ones below :before are searched. The inner order decides which are found first;
-- no more are read than :limit needs.
SELECT * FROM (
    SELECT run, id AS item, coalesce(lane, observed_lane), run_agent, run_worker, 'running', '', run_started_us, NULL, status, created_us
    FROM (SELECT * FROM items WHERE status = 'in_progress' COLLATE NOCASE ORDER BY id DESC LIMIT :most)
    WHERE (:lane IS NULL OR coalesce(lane, observed_lane) = :lane) AND (:agent IS NULL OR run_agent = :agent)
        AND substr(coalesce(run_worker, ''), 1, length(:worker)) = :worker AND run_started_us < :until
    ORDER BY run DESC LIMIT :limit)
UNION ALL
SELECT * FROM (
    SELECT r.run, r.item, coalesce(i.lane, i.observed_lane), r.agent, r.worker, r.status, r.reason, r.started_us, r.ended_us, i.status, i.created_us
    FROM (SELECT * FROM runs WHERE run < :before ORDER BY run DESC LIMIT :most) AS r CROSS JOIN items AS i ON i.id = r.item
    WHERE (:lane IS NULL OR coalesce(i.lane, i.observed_lane) = :lane) AND (:agent IS NULL OR r.agent = :agent)
        AND substr(coalesce(r.worker, ''), 1, length(:worker)) = :worker AND r.ended_us >= :since AND r.started_us < :until
    LIMIT :limit)
ORDER BY 1 DESC LIMIT :limit
