-- Those of some items that are still ended and no dead letters, locked in order; what others have locked is passed over.
SELECT id FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) AND ended_us < %(before_us)s AND status <> 'failed'
ORDER BY id FOR UPDATE SKIP LOCKED
