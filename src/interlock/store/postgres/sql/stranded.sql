-- The next lanes with a line, a gate or a gated item, in order, each with whether its line has no owner, or its owner contradicts its
-- gate. The limits keep the server from reading the owners of all lanes into a hash table.
WITH RECURSIVE found(lane, n) AS (
    SELECT least(
        (SELECT lane FROM interlock.items WHERE status = 'deferred' AND lane > %(after)s ORDER BY lane LIMIT 1),
        (SELECT lane FROM interlock.items WHERE gated AND lane > %(after)s ORDER BY lane LIMIT 1),
        (SELECT lane FROM interlock.lanes WHERE gate_us IS NOT NULL AND lane > %(after)s ORDER BY lane LIMIT 1)), 1
    UNION ALL
    SELECT least(
        (SELECT i.lane FROM interlock.items i WHERE i.status = 'deferred' AND i.lane > found.lane ORDER BY i.lane LIMIT 1),
        (SELECT i.lane FROM interlock.items i WHERE i.gated AND i.lane > found.lane ORDER BY i.lane LIMIT 1),
        (SELECT l.lane FROM interlock.lanes l WHERE l.gate_us IS NOT NULL AND l.lane > found.lane ORDER BY l.lane LIMIT 1)), n + 1
    FROM found WHERE found.lane IS NOT NULL AND n < %(limit)s
)
SELECT found.lane, ((
    SELECT o.id FROM interlock.items o
    WHERE o.lane = found.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL LIMIT 1
) IS NULL AND (
    SELECT o.id FROM interlock.items o
    WHERE o.observed_lane = found.lane AND o.status IN ('pending', 'in_progress') AND o.observed_lane IS NOT NULL LIMIT 1
) IS NULL AND (
    SELECT d.id FROM interlock.items d WHERE d.lane = found.lane AND d.status = 'deferred' LIMIT 1
) IS NOT NULL) OR (SELECT m.id FROM interlock.misgated m WHERE m.lane = found.lane LIMIT 1) IS NOT NULL
FROM found WHERE found.lane IS NOT NULL
