-- When the first ended run at or after a number started, to find where a window ends.
SELECT run, started_us FROM interlock.runs WHERE run >= %(run)s ORDER BY run LIMIT 1
