-- Every run started once and ended once, or is its item's current run; what ended had started; the table of runs says the same.
WITH started AS (SELECT run, item, count(*) AS n, min(seq) AS seq FROM events WHERE kind = 'run.started' GROUP BY run, item),
ended AS (
    SELECT run, item, count(*) AS n, min(seq) AS seq, min(kind) AS kind FROM events
    WHERE kind IN ('run.succeeded', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.lost', 'run.released') GROUP BY run, item
)
SELECT coalesce(s.run, e.run, r.run), s.n, e.n, e.kind, r.status, i.run
FROM started s FULL JOIN ended e ON e.run = s.run AND e.item = s.item FULL JOIN runs r ON r.run = coalesce(s.run, e.run)
LEFT JOIN items i ON i.id = s.item AND i.run = s.run
WHERE s.n IS DISTINCT FROM 1
    OR (e.n IS NULL) <> (i.run IS NOT NULL)
    OR e.n > 1 OR e.seq < s.seq
    OR (e.n IS NULL) <> (r.run IS NULL)
    OR r.item <> s.item OR 'run.' || r.status <> e.kind
