-- A task starts after the tasks it depends on ended as its edges want. An edge to a task that has started cannot change, so
-- the edges of today are those of the start.
SELECT e.source, e.target, e."when", first.seq FROM edges e
JOIN (SELECT item, min(seq) AS seq FROM events WHERE kind = 'run.started' GROUP BY item) AS first ON first.item = e.target
WHERE e."when" = 'success' AND e.on_cancel = 'block' AND NOT EXISTS (
    SELECT FROM events s WHERE s.item = e.source AND s.kind = 'run.succeeded' AND s.seq < first.seq)
