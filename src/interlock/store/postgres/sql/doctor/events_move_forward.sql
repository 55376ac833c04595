-- New events get greater numbers than old ones, also after a restore into another cluster.
-- mend: interlock migrate --after-restore
SELECT 'event ' || max(seq) FROM interlock.events HAVING max(seq) >= 65536 + (
    SELECT coalesce(max(value::bigint), 0) FROM interlock.meta WHERE name = 'event_base'
) + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 16)
