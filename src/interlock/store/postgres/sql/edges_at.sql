-- Every edge at the named tasks.
SELECT * FROM interlock.edges WHERE source = ANY(%(items)s::bigint[])
UNION
SELECT * FROM interlock.edges WHERE target = ANY(%(items)s::bigint[])
