-- The status of a transaction whose commit was not acknowledged. After a crash its number may belong to another one.
SELECT pg_xact_status(%(xid)s::text::xid8)
