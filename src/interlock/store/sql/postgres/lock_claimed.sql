-- The items named, locked in order of id, with the versions of their rows; the transaction's own number, which orders
-- its events and tells later whether it was committed; and the clock, read after the last wait. For items on no lane.
-- The insert that inserts nothing locks the history first, as `announce` does.
WITH announced AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason) SELECT 0, 0, '', '' WHERE false
),
locked AS MATERIALIZED (
    SELECT id, xmin::text::bigint AS version FROM interlock.items
    WHERE id = ANY(%(items)s::bigint[]) ORDER BY id FOR NO KEY UPDATE
),
gathered AS MATERIALIZED (
    SELECT array_agg(id) AS ids, array_agg(version) AS versions FROM locked
)
SELECT pg_current_xact_id()::text::bigint, ids, versions, interlock.now_us() FROM gathered
