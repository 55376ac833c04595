-- Held lanes and lanes with a line, from a lane on, or those among them with a number after their first #: the number of waiting items
-- up to a limit, the first of them, when the oldest of these was added, and the owner. It skips from one lane to the next, or with a
-- number from one repository's lane of that number to the next. The plus keeps SQLite from beginning before :start.
WITH RECURSIVE busy(lane, n) AS (
    SELECT (SELECT lane FROM (SELECT lane FROM holders UNION ALL SELECT lane FROM items WHERE status = 'deferred')
        WHERE lane >= :start AND +lane > :after ORDER BY lane LIMIT 1), 1
    UNION ALL
    SELECT (SELECT next.lane FROM (SELECT lane FROM holders UNION ALL SELECT lane FROM items WHERE status = 'deferred') AS next
        WHERE next.lane >= CASE WHEN :number = '' OR instr(busy.lane, '#') = 0 THEN busy.lane || char(1)
            WHEN busy.lane < substr(busy.lane, 1, instr(busy.lane, '#')) || :number
            THEN substr(busy.lane, 1, instr(busy.lane, '#')) || :number
            ELSE substr(busy.lane, 1, instr(busy.lane, '#') - 1) || '$' END ORDER BY next.lane LIMIT 1), n + 1
    FROM busy WHERE lane IS NOT NULL AND substr(lane, 1, length(:prefix)) = :prefix AND n < :steps
)
SELECT lane,
    (SELECT count(*) FROM (SELECT 1 FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane LIMIT :counted)),
    (SELECT json_group_array(id) FROM (SELECT d.id FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 20)),
    (SELECT min(created_us) FROM (SELECT d.created_us FROM items d WHERE d.status = 'deferred' AND d.lane = busy.lane
        ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 20)),
    coalesce(
        (SELECT o.id FROM items o
            WHERE o.lane = busy.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL),
        (SELECT o.id FROM items o
            WHERE o.observed_lane = busy.lane AND o.status IN ('pending', 'in_progress')
            AND o.observed_lane IS NOT NULL ORDER BY o.observed_lane, o.id LIMIT 1))
FROM busy WHERE lane IS NOT NULL AND substr(lane, 1, length(:prefix)) = :prefix
    AND (:number = '' OR lane = substr(lane, 1, instr(lane, '#')) || :number) LIMIT :limit
