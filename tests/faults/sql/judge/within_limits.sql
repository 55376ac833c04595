-- No agent ever had more runs at once than its limit; one edit of a plan does not count.
WITH moves AS (
    SELECT e.seq, s.agent, CASE e.kind WHEN 'run.started' THEN 1 ELSE -1 END AS change
    FROM events e JOIN events s ON s.kind = 'run.started' AND s.run = e.run AND s.item = e.item JOIN items i ON i.id = e.item
    WHERE e.kind IN ('run.started', 'run.succeeded', 'run.failed', 'run.cancelled', 'run.timed_out', 'run.lost', 'run.released')
        AND i.type <> 'plan.edit'
),
running AS (SELECT seq, agent, sum(change) OVER (PARTITION BY agent ORDER BY seq) AS n FROM moves)
SELECT r.agent, r.seq, r.n, a.max_concurrency FROM running r JOIN agents a ON a.key = r.agent WHERE r.n > a.max_concurrency OR r.n < 0
