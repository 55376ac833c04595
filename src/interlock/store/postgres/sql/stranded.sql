-- The next lanes that have a line, in their order, each with whether nobody leads it. The limits keep the server from
-- reading the owners of all lanes into a hash table.
WITH RECURSIVE lines(lane, n) AS (
    (SELECT lane, 1 FROM interlock.items WHERE status = 'deferred' AND lane > %(after)s ORDER BY lane LIMIT 1)
    UNION ALL
    SELECT (SELECT i.lane FROM interlock.items i WHERE i.status = 'deferred' AND i.lane > lines.lane ORDER BY i.lane LIMIT 1), n + 1
    FROM lines WHERE lines.lane IS NOT NULL AND n < %(limit)s
)
SELECT lines.lane, (
    SELECT o.id FROM interlock.items o
    WHERE o.lane = lines.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL LIMIT 1
) IS NULL AND (
    SELECT o.id FROM interlock.items o
    WHERE o.observed_lane = lines.lane AND o.status IN ('pending', 'in_progress') AND o.observed_lane IS NOT NULL LIMIT 1
) IS NULL
FROM lines WHERE lines.lane IS NOT NULL
