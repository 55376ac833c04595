-- While a plan's editor owes an edit, none of the plan's tasks starts.
WITH cycles AS (
    SELECT lane, seq AS opened, kind, coalesce(lead(seq) OVER (PARTITION BY lane ORDER BY seq), 9223372036854775807) AS closed
    FROM events WHERE kind IN ('plan.cycle_opened', 'plan.cycle_closed')
)
SELECT t.plan, s.item, s.run, s.seq FROM cycles c
JOIN tasks t ON 'plan:' || t.plan = c.lane JOIN events s ON s.item = t.item AND s.kind = 'run.started'
WHERE c.kind = 'plan.cycle_opened' AND s.seq > c.opened AND s.seq < c.closed
