-- Items by status.
SELECT status, sum(n) FROM tallies GROUP BY status HAVING sum(n) > 0
