-- Events after a number, with the data of their items for counting. A task's first start also has the time from which it waited
-- for no other task.
SELECT e.seq, e.kind, e.reason, coalesce(e.project, i.project), i.type, e.agent, i.priority, e.span_us,
    e.data ->> 'item_status', e.data ->> 'verdict',
    CASE WHEN e.kind = 'run.started' AND e.span_us IS NOT NULL AND i.plan IS NOT NULL THEN e.at_us - coalesce((
        SELECT r.at_us FROM events r WHERE r.item = e.item AND r.seq < e.seq AND r.kind = 'item.reentered' ORDER BY r.seq DESC LIMIT 1
    ), i.created_us) END,
    e.data ->> 'by_run', e.data ->> 'base', e.data ->> 'revision'
FROM events e LEFT JOIN items i ON i.id = e.item
WHERE e.seq > :after AND e.seq < :horizon ORDER BY e.seq LIMIT :limit
