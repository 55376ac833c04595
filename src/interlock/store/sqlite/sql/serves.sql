-- The newest schema version of the database, the oldest whose programs it serves, the offsets of its clock, and its seal.
SELECT version, serves, (SELECT value FROM meta WHERE name = 'clock'), (SELECT value FROM meta WHERE name = 'sealed')
FROM migrations ORDER BY version DESC LIMIT 1
