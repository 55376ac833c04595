-- The named items, without a lock.
SELECT * FROM interlock.items WHERE id = ANY(%(items)s::bigint[])
