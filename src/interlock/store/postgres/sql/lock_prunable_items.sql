-- Lock those of some items that are still ended and not dead letters, in order. Rows that others have locked are skipped.
SELECT id FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) AND ended_us < %(before_us)s AND status <> 'failed'
ORDER BY id FOR UPDATE SKIP LOCKED
