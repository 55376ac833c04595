-- A worker by its name.
SELECT name, host, pid, folder, agent, slots, runs, started_us, seen_us FROM interlock.workers WHERE name = %(name)s
