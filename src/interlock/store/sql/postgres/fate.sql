-- Whether a transaction whose commit was not acknowledged was committed.
SELECT pg_xact_status(%(xid)s::text::xid8)
