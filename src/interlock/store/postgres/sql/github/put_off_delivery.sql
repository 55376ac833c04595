-- Postpone a delivery that could not be decided on, until its next try. Without a wait, it waits for a person.
UPDATE interlock.github_deliveries SET due_us = coalesce(%(now_us)s, interlock.clock_us()) + %(wait_us)s, tries = tries + 1, outcome = %(why)s
WHERE interlock.expect({schema}) AND id = %(id)s AND due_us IS NOT NULL
