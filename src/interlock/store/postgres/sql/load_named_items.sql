-- The items named, locked in order of id: all a transaction needs that touches no lane.
SELECT * FROM interlock.items WHERE id = ANY(%(items)s::bigint[]) ORDER BY id FOR NO KEY UPDATE
