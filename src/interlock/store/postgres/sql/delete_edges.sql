-- Delete edges of a plan. The revision records them.
DELETE FROM interlock.edges AS e USING unnest(%s::bigint[], %s::bigint[]) AS gone(source, target)
WHERE e.source = gone.source AND e.target = gone.target
