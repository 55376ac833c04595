-- Ready items by priority, and the arrival of the oldest.
SELECT priority, count(*), min(created_us) FROM (
    SELECT priority, created_us FROM items WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL
    UNION ALL
    SELECT priority, created_us FROM items WHERE status = 'pending' AND due_us IS NULL AND plan IS NOT NULL
)
GROUP BY priority ORDER BY priority DESC
