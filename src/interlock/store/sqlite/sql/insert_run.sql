-- A run is written once, when it has ended.
INSERT INTO runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
