-- Events after a number, up to the horizon, with the data of their items for counting. Each item is looked up by key. A task's first
-- start also has the time from which it waited for no other task.
SELECT e.seq, e.kind, e.reason, coalesce(e.project, i.project), i.type, e.agent, i.priority, e.span_us,
    d.data ->> 'item_status', d.data ->> 'verdict',
    CASE WHEN e.kind = 'run.started' AND e.span_us IS NOT NULL AND i.plan IS NOT NULL THEN e.at_us - coalesce((
        SELECT at_us FROM interlock.events
        WHERE item = e.item AND item IS NOT NULL AND seq < e.seq AND kind = 'item.reentered' ORDER BY seq DESC LIMIT 1
    ), i.created_us) END,
    (d.data ->> 'by_run')::bigint, (d.data ->> 'base')::bigint, (d.data ->> 'revision')::bigint
FROM (
    SELECT * FROM interlock.events WHERE seq > %(after)s AND seq < %(horizon)s ORDER BY seq LIMIT (SELECT %(limit)s::integer)
) AS e
LEFT JOIN LATERAL (SELECT project, type, priority, plan, created_us FROM interlock.items WHERE id = e.item LIMIT 1) AS i ON true
CROSS JOIN LATERAL (SELECT e.data::jsonb AS data OFFSET 0) AS d
ORDER BY e.seq
