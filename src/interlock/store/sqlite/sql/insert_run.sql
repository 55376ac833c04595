-- Add an ended run, once.
INSERT INTO runs (run, item, attempt, agent, worker, started_us, ended_us, status, reason, result, error, bits)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
