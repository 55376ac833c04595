-- Items by status.
SELECT status, count(*) FROM items GROUP BY status
