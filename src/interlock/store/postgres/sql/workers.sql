-- Workers, the most recently seen first.
SELECT name, host, pid, folder, agent, slots, runs, started_us, seen_us FROM interlock.workers ORDER BY seen_us DESC LIMIT %(limit)s
