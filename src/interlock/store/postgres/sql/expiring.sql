-- Current runs with a lease, the earliest deadline first, among a bounded number of items with a deadline.
SELECT * FROM (SELECT * FROM interlock.items WHERE due_us IS NOT NULL ORDER BY due_us LIMIT (SELECT %(looked)s::integer)) AS due
WHERE status = 'in_progress' AND lease_until_us IS NOT NULL ORDER BY due_us, id LIMIT %(limit)s
