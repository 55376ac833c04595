-- Lanes that are held or have a line: how many wait, counted up to a limit, the first of them, and the owner. Goes from one lane
-- to the next.
WITH RECURSIVE busy(lane, n) AS (
    SELECT least(
        (SELECT lane FROM interlock.items WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL
            AND lane >= %(prefix)s ORDER BY lane LIMIT 1),
        (SELECT observed_lane FROM interlock.items WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL
            AND observed_lane >= %(prefix)s ORDER BY observed_lane LIMIT 1),
        (SELECT lane FROM interlock.items WHERE status = 'deferred' AND lane >= %(prefix)s ORDER BY lane LIMIT 1)), 1
    UNION ALL
    SELECT least(
        (SELECT i.lane FROM interlock.items i WHERE i.status IN ('pending', 'in_progress') AND i.lane IS NOT NULL
            AND i.lane > busy.lane ORDER BY i.lane LIMIT 1),
        (SELECT i.observed_lane FROM interlock.items i WHERE i.status IN ('pending', 'in_progress') AND i.observed_lane IS NOT NULL
            AND i.observed_lane > busy.lane ORDER BY i.observed_lane LIMIT 1),
        (SELECT i.lane FROM interlock.items i WHERE i.status = 'deferred' AND i.lane > busy.lane ORDER BY i.lane LIMIT 1)), n + 1
    FROM busy WHERE starts_with(busy.lane, %(prefix)s) AND n < %(limit)s
)
SELECT busy.lane,
    (SELECT count(*) FROM (SELECT FROM interlock.items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.lane, d.front DESC, d.position, d.ticket, d.id LIMIT (SELECT %(counted)s::integer)) AS line),
    ARRAY(SELECT d.id FROM interlock.items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.lane, d.front DESC, d.position, d.ticket, d.id LIMIT 20),
    coalesce(
        (SELECT o.id FROM interlock.items o
            WHERE o.lane = busy.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL),
        (SELECT o.id FROM interlock.items o
            WHERE o.observed_lane = busy.lane AND o.status IN ('pending', 'in_progress')
            AND o.observed_lane IS NOT NULL ORDER BY o.observed_lane, o.id LIMIT 1))
FROM busy WHERE starts_with(busy.lane, %(prefix)s)
