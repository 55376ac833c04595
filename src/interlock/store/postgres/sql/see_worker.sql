-- Record the presence of a worker, with its first time.
INSERT INTO interlock.workers (name, host, pid, folder, agent, slots, runs, started_us, seen_us)
SELECT %(name)s, %(host)s, %(pid)s, %(folder)s, %(agent)s, %(slots)s, %(runs)s, now_us, now_us
FROM (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us WHERE interlock.expect({schema})) AS clock
ON CONFLICT (name) DO UPDATE SET runs = excluded.runs, seen_us = excluded.seen_us
