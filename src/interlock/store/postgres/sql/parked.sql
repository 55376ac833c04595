-- Items by priority that keep their lane during a back-off: pending, and not ready.
SELECT priority, count(*) FROM interlock.items WHERE status = 'pending' AND due_us IS NOT NULL GROUP BY priority
