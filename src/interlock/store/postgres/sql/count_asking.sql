-- The number of items that wait for a person's answer, by status.
SELECT status, count(*) FROM interlock.items WHERE run IS NULL AND status IN ('waiting', 'pending') AND reason = 'asked' GROUP BY status
UNION ALL
SELECT status, count(*) FROM interlock.items WHERE status = 'in_progress' AND reason = 'asked' GROUP BY status
