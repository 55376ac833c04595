-- Edges leave their plan; the revision keeps what they were.
DELETE FROM interlock.edges AS e USING unnest(%s::bigint[], %s::bigint[]) AS gone(source, target)
WHERE e.source = gone.source AND e.target = gone.target
