-- Keeps the record of one run that ended.
INSERT INTO runs (run, item, attempt, agent, started_us, ended_us, status, reason)
VALUES (?, ?, 1, ?, ?, ?, 'succeeded', 'reported');
