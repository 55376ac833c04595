-- The items named with the versions of their rows, locked in order of id.
SELECT id, xmin::text::bigint FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) ORDER BY id FOR NO KEY UPDATE
