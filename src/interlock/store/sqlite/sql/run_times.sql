-- When the first ended run at or after a number started, to find where a window ends.
SELECT run, started_us FROM runs WHERE run >= :run ORDER BY run LIMIT 1
