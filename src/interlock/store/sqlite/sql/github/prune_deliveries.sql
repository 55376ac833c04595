-- Delete old decided deliveries.
DELETE FROM github_deliveries WHERE id IN (
    SELECT id FROM github_deliveries WHERE body IS NULL AND received_us < :before_us ORDER BY received_us LIMIT :limit) RETURNING 1
