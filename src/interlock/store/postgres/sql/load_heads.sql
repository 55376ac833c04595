-- Who comes after the owners of lanes that this transaction has locked: of each lane the first of its line, with the version
-- of its row, or nothing; and on each whether an observed item is active there, which a claim could change meanwhile. No row
-- is locked.
SELECT l.lane, EXISTS (
        SELECT 1 FROM interlock.items
        WHERE observed_lane = l.lane AND status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL
    ), head.*
FROM unnest(%(lanes)s::text[]) AS l(lane) LEFT JOIN LATERAL (
    SELECT i.xmin::text::bigint, i.* FROM interlock.items i WHERE i.lane = l.lane AND i.status = 'deferred'
    ORDER BY i.front DESC, i.position, i.ticket, i.id LIMIT 1
) AS head ON true
