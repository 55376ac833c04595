-- The ends of runs, to answer a late report.
SELECT * FROM interlock.runs WHERE run = ANY(%(runs)s::bigint[])
