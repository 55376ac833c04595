-- The items and lanes of runs, by the runs' numbers. Runs that go on are few, and looked through.
SELECT r.run, r.item, i.lane FROM unnest(%(runs)s::bigint[]) AS wanted(run)
CROSS JOIN LATERAL (SELECT run, item FROM interlock.runs WHERE runs.run = wanted.run OFFSET 0) AS r
CROSS JOIN LATERAL (SELECT lane FROM interlock.items WHERE id = r.item OFFSET 0) AS i
UNION
SELECT run, id, lane FROM interlock.items WHERE status = 'in_progress' AND run = ANY(%(runs)s::bigint[])
