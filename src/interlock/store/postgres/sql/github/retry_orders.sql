-- Make some orders that wait for a person due again.
UPDATE interlock.github_consequences SET due_us = coalesce(%(now_us)s, interlock.clock_us()), tries = 0
WHERE interlock.expect({schema}) AND ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_consequences WHERE done_us IS NULL AND due_us IS NULL ORDER BY repository, number, place LIMIT %(limit)s FOR UPDATE)) RETURNING name
