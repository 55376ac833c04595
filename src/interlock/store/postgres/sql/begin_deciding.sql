-- The transaction's own number, which orders its events and tells later whether it was committed; and the lanes
-- to lock for each of the named items: the one it stands on, and the one that guards its plan. An item never changes
-- either.
-- The insert that inserts nothing locks the history first, as `announce` does.
WITH announced AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason) SELECT 0, 0, '', '' WHERE false
)
SELECT pg_current_xact_id()::text::bigint, ARRAY(
    SELECT coalesce(lane, observed_lane) FROM interlock.items
    WHERE id = ANY(%(items)s::bigint[]) AND coalesce(lane, observed_lane) IS NOT NULL
    UNION ALL
    SELECT 'plan:' || plan FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) AND plan IS NOT NULL)
