-- A plan's tasks can be claimed exactly while it runs, is not paused and has no open edit cycle.
-- mend: This must not happen; pause and resume the plan, keep a copy of the database and report it.
SELECT 'plan ' || p.id FROM interlock.plans p LEFT JOIN interlock.gates g ON g.plan = p.id
WHERE g.open IS DISTINCT FROM (p.status = 'running' AND p.cycle_us IS NULL AND p.paused_why IS NULL)
