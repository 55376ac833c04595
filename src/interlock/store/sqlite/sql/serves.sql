-- The newest schema version of the database, and the oldest whose programs it serves.
SELECT version, serves FROM migrations ORDER BY version DESC LIMIT 1
