-- All a transaction may decide on, locked in order of id: the items named and what would replace them, and of
-- each lane its active items, the first of its line, and what an arrival may absorb.
WITH lane AS (SELECT unnest(%(lanes)s::text[]) COLLATE "C" AS lane),
wanted AS MATERIALIZED (
    SELECT unnest(%(items)s::bigint[]) AS id
    UNION
    SELECT absorbed_by FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) AND absorbed_by IS NOT NULL
    UNION
    SELECT i.id FROM lane JOIN interlock.items i ON i.lane = lane.lane
        AND i.status IN ('pending', 'in_progress') AND i.lane IS NOT NULL
    UNION
    SELECT i.id FROM lane JOIN interlock.items i ON i.observed_lane = lane.lane
        AND i.status IN ('pending', 'in_progress') AND i.observed_lane IS NOT NULL
    UNION
    SELECT d.id FROM lane CROSS JOIN LATERAL (
        SELECT i.id FROM interlock.items i WHERE i.lane = lane.lane AND i.status = 'deferred'
        ORDER BY i.front DESC, i.position, i.ticket, i.id LIMIT %(heads)s) AS d
    UNION
    SELECT i.id FROM lane JOIN interlock.items i ON i.lane = lane.lane
        AND i.status IN ('deferred', 'waiting') AND i.policy IN ('coalesce', 'supersede', 'latest')
)
SELECT i.* FROM wanted JOIN interlock.items i ON i.id = wanted.id ORDER BY i.id FOR NO KEY UPDATE OF i
