-- Postpone an order that could not be carried out, until its next try. Without a wait, it waits for a person.
UPDATE interlock.github_consequences SET due_us = coalesce(%(now_us)s, interlock.clock_us()) + %(wait_us)s, tries = tries + 1, outcome = %(why)s
WHERE interlock.expect({schema})
    AND repository = %(repository)s AND number = %(number)s AND name = %(name)s AND due_us IS NOT NULL
