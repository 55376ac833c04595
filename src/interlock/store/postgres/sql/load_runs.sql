-- The existing ones of the named ended runs.
SELECT * FROM interlock.runs WHERE run = ANY(%(runs)s::bigint[])
