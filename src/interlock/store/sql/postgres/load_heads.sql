-- Who may come after the owners of lanes that this transaction has locked: of each lane the first of its line, and what an
-- arrival may absorb; one may come twice. No row is locked. Each ends with its version, and with whether an observed item is
-- active there, which a claim could change meanwhile. There is always a row.
WITH observed AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM interlock.items
        WHERE observed_lane = ANY(%(lanes)s::text[]) AND status IN ('pending', 'in_progress')
            AND observed_lane IS NOT NULL
    ) AS some
)
SELECT next.*, observed.some
FROM observed LEFT JOIN (
    SELECT head.* FROM unnest(%(lanes)s::text[]) AS l(lane) CROSS JOIN LATERAL (
        SELECT i.*, i.xmin::text::bigint FROM interlock.items i WHERE i.lane = l.lane AND i.status = 'deferred'
        ORDER BY i.front DESC, i.position, i.ticket, i.id LIMIT %(heads)s) AS head
    UNION ALL
    SELECT i.*, i.xmin::text::bigint FROM interlock.items i
    WHERE lane = ANY(%(lanes)s::text[]) AND status IN ('deferred', 'waiting')
        AND policy IN ('coalesce', 'supersede', 'latest')
) AS next ON true
