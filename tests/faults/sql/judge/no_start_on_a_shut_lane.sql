-- While a lane is shut by its gate, nothing starts there but what is exempt.
WITH gates AS (
    SELECT lane, seq AS since, kind, coalesce(data::jsonb -> 'exempt', '[]') AS exempt,
        coalesce(lead(seq) OVER (PARTITION BY lane ORDER BY seq), 9223372036854775807) AS until
    FROM events WHERE kind IN ('gate.closed', 'gate.opened', 'gate.removed')
)
SELECT g.lane, s.item, s.run, s.seq FROM gates g JOIN events s ON s.lane = g.lane AND s.kind = 'run.started' JOIN items i ON i.id = s.item
WHERE g.kind = 'gate.closed' AND s.seq > g.since AND s.seq < g.until AND i.lane = g.lane AND NOT jsonb_exists(g.exempt, i.type)
