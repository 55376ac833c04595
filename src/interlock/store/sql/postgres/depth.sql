-- Ready items by priority, and the arrival of the oldest.
SELECT priority, count(*), min(created_us) FROM interlock.items WHERE status = 'pending' AND due_us IS NULL
GROUP BY priority ORDER BY priority DESC
