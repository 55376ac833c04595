-- The last lines of history, last one first, up to the oldest transaction still open.
SELECT * FROM interlock.events
WHERE seq > %(after)s
    AND seq < %(event_base)s + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 16)
    AND (%(item)s::bigint IS NULL OR item = %(item)s) AND (%(lane)s::text IS NULL OR lane = %(lane)s)
ORDER BY seq DESC LIMIT %(limit)s
