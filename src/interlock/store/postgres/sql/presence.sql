-- The presence of the known ones of the named agents: last claim, last report of a worker, an unexpired run.
-- The runs of an agent are a range of their index: the server expects few rows of a range, whatever its statistics are.
SELECT a.key, a.seen_us, (SELECT w.seen_us FROM interlock.workers w WHERE w.agent = a.key ORDER BY w.agent DESC, w.seen_us DESC LIMIT 1),
    (SELECT true FROM (SELECT due_us FROM interlock.items WHERE status = 'in_progress' AND run_agent BETWEEN a.key AND a.key OFFSET 0) AS r
        WHERE r.due_us IS NULL OR r.due_us > coalesce(%(now_us)s, interlock.clock_us()) LIMIT 1),
    a.overtake_after_s
FROM unnest(%(agents)s::text[]) AS named(key) CROSS JOIN LATERAL (SELECT * FROM interlock.agents WHERE key = named.key LIMIT 1) AS a
