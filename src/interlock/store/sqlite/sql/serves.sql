-- The newest schema version of the database, the oldest whose programs it serves, and the offsets of its clock.
SELECT version, serves, (SELECT value FROM meta WHERE name = 'clock') FROM migrations ORDER BY version DESC LIMIT 1
