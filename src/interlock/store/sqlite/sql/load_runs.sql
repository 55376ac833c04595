-- The existing ones of the named ended runs.
SELECT * FROM runs WHERE run IN (SELECT value FROM json_each(:runs))
