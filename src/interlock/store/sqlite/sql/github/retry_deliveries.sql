-- Make some deliveries that wait for a person due again.
UPDATE github_deliveries SET due_us = :now_us, tries = 0
WHERE id IN (
    SELECT id FROM github_deliveries WHERE body IS NOT NULL AND due_us IS NULL ORDER BY received_us LIMIT :limit) RETURNING id
