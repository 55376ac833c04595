-- How many items wait for the answer of a person, by status.
SELECT status, count(*) FROM interlock.items WHERE status IN ('waiting', 'pending') AND reason = 'asked' GROUP BY status
