-- The history of each completed item: three lines.
WITH line (nth, kind, reason) AS (
    VALUES (0, 'item.added', 'no_lane'), (1, 'run.started', ''), (2, 'run.succeeded', 'reported')
)
INSERT INTO events (at_us, kind, reason, project, item, run, agent)
SELECT i.created_us, line.kind, line.reason, i.project, i.id, CASE WHEN line.nth > 0 THEN i.id END, ''
FROM items AS i CROSS JOIN line
WHERE i.status = 'completed' ORDER BY i.id, line.nth;
