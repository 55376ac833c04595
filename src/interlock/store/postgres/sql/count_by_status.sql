-- Items by status.
SELECT status, count(*) FROM interlock.items GROUP BY status
