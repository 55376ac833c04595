-- How runs ended, to tell a late writer.
SELECT * FROM runs WHERE run IN (SELECT value FROM json_each(:runs))
