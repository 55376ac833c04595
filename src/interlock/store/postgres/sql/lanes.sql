-- Held lanes and lanes with a line, from a lane on, or those among them with a number after their first #: the number of waiting items
-- up to a limit, the first of them, when the oldest of these was added, and the owner. It skips from one lane to the next, or with a
-- number from one repository's lane of that number to the next.
WITH RECURSIVE busy(lane, n) AS (
    SELECT least(
        (SELECT lane FROM interlock.items WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL
            AND lane >= %(start)s AND lane > %(after)s ORDER BY lane LIMIT 1),
        (SELECT observed_lane FROM interlock.items WHERE status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL
            AND observed_lane >= %(start)s AND observed_lane > %(after)s ORDER BY observed_lane LIMIT 1),
        (SELECT lane FROM interlock.items WHERE status = 'deferred' AND lane >= %(start)s AND lane > %(after)s ORDER BY lane LIMIT 1)), 1
    UNION ALL
    SELECT least(
        (SELECT i.lane FROM interlock.items i WHERE i.status IN ('pending', 'in_progress') AND i.lane IS NOT NULL
            AND i.lane >= seek.lane ORDER BY i.lane LIMIT 1),
        (SELECT i.observed_lane FROM interlock.items i WHERE i.status IN ('pending', 'in_progress') AND i.observed_lane IS NOT NULL
            AND i.observed_lane >= seek.lane ORDER BY i.observed_lane LIMIT 1),
        (SELECT i.lane FROM interlock.items i WHERE i.status = 'deferred' AND i.lane >= seek.lane ORDER BY i.lane LIMIT 1)), n + 1
    FROM busy CROSS JOIN LATERAL (SELECT CASE WHEN %(number)s = '' OR strpos(busy.lane, '#') = 0 THEN busy.lane || chr(1)
        WHEN busy.lane < left(busy.lane, strpos(busy.lane, '#')) || %(number)s
        THEN left(busy.lane, strpos(busy.lane, '#')) || %(number)s
        ELSE left(busy.lane, strpos(busy.lane, '#') - 1) || '$' END AS lane OFFSET 0) AS seek
    WHERE starts_with(busy.lane, %(prefix)s) AND n < %(steps)s
)
SELECT busy.lane,
    (SELECT count(*) FROM (SELECT FROM interlock.items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.lane, d.front DESC, d.position, d.ticket, d.id LIMIT (SELECT %(counted)s::integer)) AS line),
    ARRAY(SELECT d.id FROM interlock.items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.lane, d.front DESC, d.position, d.ticket, d.id LIMIT 20),
    (SELECT min(created_us) FROM (SELECT d.created_us FROM interlock.items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.lane, d.front DESC, d.position, d.ticket, d.id LIMIT 20) AS first),
    coalesce(
        (SELECT o.id FROM interlock.items o
            WHERE o.lane = busy.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL),
        (SELECT o.id FROM interlock.items o
            WHERE o.observed_lane = busy.lane AND o.status IN ('pending', 'in_progress')
            AND o.observed_lane IS NOT NULL ORDER BY o.observed_lane, o.id LIMIT 1))
FROM busy WHERE starts_with(busy.lane, %(prefix)s)
    AND (%(number)s = '' OR busy.lane = left(busy.lane, strpos(busy.lane, '#')) || %(number)s) LIMIT %(limit)s
