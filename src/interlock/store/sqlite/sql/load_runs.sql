-- The ends of runs, to answer a late report.
SELECT * FROM runs WHERE run IN (SELECT value FROM json_each(:runs))
