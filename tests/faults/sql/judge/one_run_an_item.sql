-- No run of an item starts before its earlier runs have ended, lane or not.
WITH spans AS (
    SELECT s.item, s.run, s.seq AS began, coalesce(e.seq, 9223372036854775807) AS ended
    FROM events s LEFT JOIN events e ON e.run = s.run AND e.item = s.item
        AND e.kind IN ('run.succeeded', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.lost', 'run.released')
    WHERE s.kind = 'run.started'
),
before AS (
    SELECT *, max(ended) OVER (PARTITION BY item ORDER BY began ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_at FROM spans
)
SELECT item, run, began, free_at FROM before WHERE free_at > began
