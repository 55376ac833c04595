-- The transaction's own number, which orders its events and tells later whether it was committed.
SELECT pg_current_xact_id()::text::bigint WHERE interlock.expect({schema})
