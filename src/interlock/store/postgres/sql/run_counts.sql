-- The outcomes of runs among the newest events from a number on, by project, item type, priority or agent; and the number of items that failed for good with them.
SELECT name, kind, count(*), sum(last) FROM (
    SELECT kind,
        CASE %(by)s::text WHEN 'type' THEN (SELECT type FROM interlock.items WHERE id = newest.item) WHEN 'priority' THEN (SELECT priority::text FROM interlock.items WHERE id = newest.item) WHEN 'agent' THEN agent ELSE project END AS name,
        CASE WHEN kind IN ('run.failed', 'run.lost', 'run.timed_out') THEN (data::json ->> 'item_status' = 'failed')::integer ELSE 0 END AS last
    FROM (
        SELECT kind, project, item, agent, data FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq DESC LIMIT (SELECT %(limit)s::integer)
    ) AS newest
    WHERE kind IN ('run.started', 'run.succeeded', 'run.failed', 'run.lost', 'run.timed_out', 'run.cancelled', 'run.released')
) AS runs
GROUP BY name, kind
