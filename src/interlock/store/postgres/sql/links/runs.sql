-- The items and lanes of runs, by number. Live runs are few, and are scanned.
SELECT r.run, r.item, i.lane FROM unnest(%(runs)s::bigint[]) AS wanted(run)
CROSS JOIN LATERAL (SELECT run, item FROM interlock.runs WHERE runs.run = wanted.run OFFSET 0) AS r
CROSS JOIN LATERAL (SELECT lane FROM interlock.items WHERE id = r.item OFFSET 0) AS i
UNION
SELECT run, id, lane FROM interlock.items WHERE status = 'in_progress' AND run = ANY(%(runs)s::bigint[])
