-- Items with external runs, the longest running first.
SELECT * FROM items WHERE status = 'in_progress' AND lease_until_us IS NULL AND run IS NOT NULL ORDER BY run LIMIT :limit
