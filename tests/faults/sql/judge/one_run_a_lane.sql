-- No run starts on a lane before the runs that started earlier there have ended. Order is the order of the history.
WITH spans AS (
    SELECT i.lane, s.run, s.seq AS began, coalesce(e.seq, 9223372036854775807) AS ended
    FROM events s JOIN items i ON i.id = s.item
    LEFT JOIN events e ON e.run = s.run AND e.item = s.item
        AND e.kind IN ('run.succeeded', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.lost', 'run.released')
    WHERE s.kind = 'run.started' AND i.lane IS NOT NULL
),
before AS (
    SELECT *, max(ended) OVER (PARTITION BY lane ORDER BY began ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_at FROM spans
)
SELECT lane, run, began, free_at FROM before WHERE free_at > began
