-- Requeue some effects that wait for a person.
UPDATE interlock.github_effects SET dead_us = NULL, tries = 0
WHERE interlock.expect({schema}) AND ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_effects WHERE dead_us IS NOT NULL ORDER BY dead_us LIMIT %(limit)s FOR UPDATE)) RETURNING repository, number
