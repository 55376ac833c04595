-- The items named, as they are; not locked.
SELECT * FROM interlock.items WHERE id = ANY(%(items)s::bigint[])
