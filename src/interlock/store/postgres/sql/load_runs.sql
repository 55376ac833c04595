-- How runs ended, to tell a late writer.
SELECT * FROM interlock.runs WHERE run = ANY(%(runs)s::bigint[])
