-- The ended runs of some items.
SELECT run FROM interlock.runs WHERE item = ANY(%(items)s::bigint[]) ORDER BY run
