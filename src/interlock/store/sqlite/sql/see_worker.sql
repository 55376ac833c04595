-- Record the presence of a worker, with its first time.
INSERT INTO workers (name, host, pid, folder, agent, slots, runs, started_us, seen_us)
VALUES (:name, :host, :pid, :folder, :agent, :slots, :runs, :now_us, :now_us)
ON CONFLICT (name) DO UPDATE SET runs = excluded.runs, seen_us = excluded.seen_us
