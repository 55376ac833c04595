-- Keeps the record of one run that ended.
INSERT INTO runs (run, item, attempt, agent, started_us, ended_us, status, reason, bits)
VALUES (?1, ?2, 1, ?3, ?4, ?5, 'succeeded', 'reported', ?6);
