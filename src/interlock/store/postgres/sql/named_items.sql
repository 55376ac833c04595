-- The named items, as far as they are there.
SELECT * FROM interlock.items WHERE id = ANY(%(items)s::bigint[])
