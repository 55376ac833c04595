-- Requeue one effect that waits for a person.
UPDATE interlock.github_effects SET dead_us = NULL, tries = 0
WHERE interlock.expect({schema}) AND repository = %(repository)s AND number = %(number)s AND place = %(place)s AND dead_us IS NOT NULL RETURNING repository, number
