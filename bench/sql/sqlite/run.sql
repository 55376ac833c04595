-- Keeps the record of one run that ended, with its number in the place of the bits.
INSERT INTO runs (run, item, attempt, agent, started_us, ended_us, status, reason, bits)
VALUES (?1, ?2, 1, ?3, ?4, ?5, 'succeeded', 'reported', ?1);
