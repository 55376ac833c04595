-- The numbers of items by status and priority.
SELECT status, priority, sum(n) FROM tallies GROUP BY status, priority
