-- The existing ones of the named items.
SELECT * FROM interlock.items WHERE id = ANY(%(items)s::bigint[])
