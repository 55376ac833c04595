-- The next :limit lanes after :after with a line, a gate or a gated item, and whether the line has no owner, or the owner contradicts
-- the gate. It skips from one lane to the next.
WITH RECURSIVE found(lane) AS (
    SELECT (SELECT min(lane) FROM (
        SELECT min(lane) AS lane FROM items WHERE status = 'deferred' AND lane > :after
        UNION ALL SELECT min(lane) FROM items WHERE gated = 1 AND lane > :after
        UNION ALL SELECT min(lane) FROM lanes WHERE gate_series IS NOT NULL AND lane > :after))
    UNION ALL
    SELECT (SELECT min(lane) FROM (
        SELECT min(d.lane) AS lane FROM items d WHERE d.status = 'deferred' AND d.lane > found.lane
        UNION ALL SELECT min(g.lane) FROM items g WHERE g.gated = 1 AND g.lane > found.lane
        UNION ALL SELECT min(l.lane) FROM lanes l WHERE l.gate_series IS NOT NULL AND l.lane > found.lane))
    FROM found WHERE lane IS NOT NULL
)
SELECT lane, (NOT EXISTS (SELECT 1 FROM holders WHERE holders.lane = found.lane)
        AND EXISTS (SELECT 1 FROM items d WHERE d.status = 'deferred' AND d.lane = found.lane))
    OR EXISTS (SELECT 1 FROM misgated m WHERE m.lane = found.lane)
FROM found WHERE lane IS NOT NULL LIMIT :limit
