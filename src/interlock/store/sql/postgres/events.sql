-- History after a number, in order, up to the oldest transaction still open, so that nothing is skipped.
SELECT * FROM interlock.events
WHERE seq > %(after)s
    AND seq < %(event_base)s + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 16)
    AND (%(item)s::bigint IS NULL OR item = %(item)s) AND (%(lane)s::text IS NULL OR lane = %(lane)s)
ORDER BY seq LIMIT %(limit)s
