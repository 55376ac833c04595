-- What became of a transaction whose commit was not acknowledged, unless a crash has let its number be reused.
SELECT pg_xact_status(%(xid)s::text::xid8)
