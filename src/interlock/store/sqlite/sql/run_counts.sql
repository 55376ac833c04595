-- How runs of the window went, by their project, their item's type or priority, or their agent; and how many items failed for good with them.
SELECT
    CASE :by WHEN 'type' THEN (SELECT type FROM items WHERE id = events.item) WHEN 'priority' THEN (SELECT CAST(priority AS TEXT) FROM items WHERE id = events.item) WHEN 'agent' THEN agent ELSE project END AS name,
    kind, count(*),
    sum(CASE WHEN kind IN ('run.failed', 'run.lost', 'run.timed_out') THEN json_extract(data, '$.item_status') = 'failed' ELSE 0 END)
FROM events
WHERE seq >= :first AND kind IN ('run.started', 'run.succeeded', 'run.failed', 'run.lost', 'run.timed_out', 'run.cancelled', 'run.released')
GROUP BY name, kind
