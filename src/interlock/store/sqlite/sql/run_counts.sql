-- The outcomes of runs among the newest events from a number on, by project, item type, priority or agent; and the number of items that failed for good with them.
SELECT name, kind, count(*), sum(last) FROM (
    SELECT kind,
        CASE :by WHEN 'type' THEN (SELECT type FROM items WHERE id = newest.item) WHEN 'priority' THEN (SELECT CAST(priority AS TEXT) FROM items WHERE id = newest.item) WHEN 'agent' THEN agent ELSE project END AS name,
        CASE WHEN kind IN ('run.failed', 'run.lost', 'run.timed_out') THEN json_extract(data, '$.item_status') = 'failed' ELSE 0 END AS last
    FROM (
        SELECT kind, project, item, agent, data FROM events WHERE seq >= :seq ORDER BY seq DESC LIMIT :limit
    ) AS newest
    WHERE kind IN ('run.started', 'run.succeeded', 'run.failed', 'run.lost', 'run.timed_out', 'run.cancelled', 'run.released')
) AS runs
GROUP BY name, kind
