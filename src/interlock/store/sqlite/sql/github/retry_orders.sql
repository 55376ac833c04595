-- Make some orders that wait for a person due again.
UPDATE github_consequences SET due_us = :now_us, tries = 0
WHERE (repository, number, place) IN (
    SELECT repository, number, place FROM github_consequences WHERE done_us IS NULL AND due_us IS NULL ORDER BY repository, number, place LIMIT :limit) RETURNING name
