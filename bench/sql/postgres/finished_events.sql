-- The history of each completed item: three lines, numbered below those of any later transaction.
INSERT INTO interlock.events (seq, at_us, kind, reason, project, item, run, agent)
SELECT 3 * id + line.nth, created_us, line.kind, line.reason, project, id, CASE WHEN line.nth > 0 THEN id END, ''
FROM interlock.items
CROSS JOIN (
    VALUES (0, 'item.added', 'no_lane'), (1, 'run.started', ''), (2, 'run.succeeded', 'reported')
) AS line (nth, kind, reason)
WHERE status = 'completed' ORDER BY id, line.nth;
