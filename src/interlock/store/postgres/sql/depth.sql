-- Ready items by priority, and the arrival of the oldest.
SELECT priority, count(*), min(created_us) FROM (
    SELECT priority, created_us FROM interlock.items WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL
    UNION ALL
    SELECT priority, created_us FROM interlock.items WHERE status = 'pending' AND due_us IS NULL AND plan IS NOT NULL
) AS ready
GROUP BY priority ORDER BY priority DESC
