-- Record an order as carried out, with its outcome.
UPDATE interlock.github_consequences SET due_us = NULL, done_us = coalesce(%(now_us)s, interlock.clock_us()), item = %(item)s, outcome = %(outcome)s
WHERE interlock.expect({schema})
    AND repository = %(repository)s AND number = %(number)s AND name = %(name)s AND done_us IS NULL RETURNING name
