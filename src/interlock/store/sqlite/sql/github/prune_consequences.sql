-- Delete old carried out orders.
DELETE FROM github_consequences WHERE (repository, number, place) IN (
    SELECT repository, number, place FROM github_consequences WHERE done_us < :before_us ORDER BY done_us LIMIT :limit) RETURNING 1
