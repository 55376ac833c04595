-- The transaction's own number, which orders its events and tells later whether it was committed; and the clock.
-- The insert that inserts nothing locks the history first, as `announce` does.
WITH announced AS (
    INSERT INTO interlock.events (seq, at_us, kind, reason) SELECT 0, 0, '', '' WHERE false
)
SELECT pg_current_xact_id()::text::bigint, interlock.now_us()
