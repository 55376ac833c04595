-- The lanes are this transaction's until it ends, locked in one order by everyone; the transaction's own number, which
-- orders its events and tells later whether it was committed; and the clock, read after the wait.
-- The insert that inserts nothing locks the history first, as `announce` does.
WITH announced AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason) SELECT 0, 0, '', '' WHERE false
),
locked AS MATERIALIZED (
    SELECT lane FROM interlock.lanes WHERE lane = ANY(%(lanes)s::text[]) ORDER BY lane FOR NO KEY UPDATE
)
SELECT pg_current_xact_id()::text::bigint, interlock.now_us() FROM (SELECT count(*) FROM locked) AS waited
