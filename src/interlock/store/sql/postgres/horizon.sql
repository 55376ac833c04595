-- Below this number no event can appear any more: readers who stop here never skip a line.
-- An open transaction holds it back, unless its locks show that it is none of ours: our writers lock the history
-- before they get a number, so one that has a number and no such lock, in this database, will not write to it.
WITH held AS MATERIALIZED (SELECT * FROM pg_locks),
ours AS (
    SELECT virtualtransaction FROM held
    WHERE locktype = 'relation' AND relation = 'interlock.events'::regclass AND mode = 'RowExclusiveLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
),
foreign_ones AS (
    SELECT transactionid::text::bigint AS number FROM held
    WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
        AND virtualtransaction NOT IN (SELECT virtualtransaction FROM ours)
)
SELECT %(event_base)s + (coalesce(min(open.xid), max(pg_snapshot_xmax(now.snapshot)::text::bigint)) << 16)
FROM (SELECT pg_current_snapshot() AS snapshot) AS now
LEFT JOIN LATERAL (
    SELECT xid::text::bigint AS xid FROM pg_snapshot_xip(now.snapshot) AS xid
) AS open ON open.xid & 4294967295 NOT IN (SELECT number FROM foreign_ones)
