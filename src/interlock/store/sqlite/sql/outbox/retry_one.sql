-- Requeue one effect that waits for a person.
UPDATE github_effects SET dead_us = NULL, tries = 0
WHERE repository = :repository AND number = :number AND place = :place AND dead_us IS NOT NULL RETURNING repository, number
