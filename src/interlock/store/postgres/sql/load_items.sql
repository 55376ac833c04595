-- All a transaction may decide on, locked in order of id: the items named and what would replace them, and of
-- each lane its active items, the first of its line, and what an arrival may absorb. Every look-up goes by an
-- array, which keeps it on an index whatever the statistics say. Each row ends with the clock, read after its wait.
WITH wanted AS MATERIALIZED (
    SELECT unnest(%(items)s::bigint[]) AS id
    UNION
    SELECT absorbed_by FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) AND absorbed_by IS NOT NULL
    UNION
    SELECT id FROM interlock.items
    WHERE lane = ANY(%(lanes)s::text[]) AND status IN ('pending', 'in_progress') AND lane IS NOT NULL
    UNION
    SELECT id FROM interlock.items
    WHERE observed_lane = ANY(%(lanes)s::text[]) AND status IN ('pending', 'in_progress')
        AND observed_lane IS NOT NULL
    UNION
    SELECT d.id FROM unnest(%(lanes)s::text[]) AS l(lane) CROSS JOIN LATERAL (
        SELECT i.id FROM interlock.items i WHERE i.lane = l.lane AND i.status = 'deferred'
        ORDER BY i.front DESC, i.position, i.ticket, i.id LIMIT %(heads)s) AS d
    UNION
    SELECT id FROM interlock.items
    WHERE lane = ANY(%(lanes)s::text[]) AND status IN ('deferred', 'waiting')
        AND policy IN ('coalesce', 'supersede', 'latest')
),
locked AS MATERIALIZED (
    SELECT * FROM interlock.items WHERE id = ANY(ARRAY(SELECT id FROM wanted)) ORDER BY id FOR NO KEY UPDATE
)
SELECT *, interlock.now_us() FROM locked
