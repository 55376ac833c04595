-- Requeue some effects that wait for a person.
UPDATE github_effects SET dead_us = NULL, tries = 0
WHERE (repository, number, place) IN (
    SELECT repository, number, place FROM github_effects WHERE dead_us IS NOT NULL ORDER BY dead_us LIMIT :limit) RETURNING repository, number
