-- Below this number no event can appear any more to statements that begin later: readers who stop here never skip a line.
-- An open transaction holds it back, unless its locks show that it is not a writer of ours: our writers lock the history
-- before they get a number, so one that has a number and no such lock, in this database, will not write to it.
-- A number whose lock is gone belongs to a transaction that has ended since, or to a writer who got it this instant and
-- has not locked it yet; the latter shows by a lock on the history without a number.
WITH held AS MATERIALIZED (SELECT * FROM pg_locks),
writers AS (
    SELECT virtualtransaction FROM held
    WHERE locktype = 'relation' AND relation = 'interlock.events'::regclass AND mode = 'RowExclusiveLock'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
),
numbered AS (
    SELECT virtualtransaction, transactionid::text::bigint AS number FROM held
    WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
)
SELECT %(event_base)s + (coalesce(min(open.xid), max(pg_snapshot_xmax(now.snapshot)::text::bigint)) << 16)
FROM (SELECT pg_current_snapshot() AS snapshot) AS now
LEFT JOIN LATERAL (
    SELECT xid::text::bigint AS xid FROM pg_snapshot_xip(now.snapshot) AS xid
) AS open ON open.xid & 4294967295 IN (
        SELECT number FROM numbered WHERE virtualtransaction IN (SELECT virtualtransaction FROM writers)
    ) OR open.xid & 4294967295 NOT IN (SELECT number FROM numbered) AND EXISTS (
        SELECT FROM writers WHERE virtualtransaction NOT IN (SELECT virtualtransaction FROM numbered)
    )
