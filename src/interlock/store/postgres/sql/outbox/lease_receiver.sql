-- Lease the queue of a receiver if it is due.
UPDATE interlock.github_outboxes SET due_us = coalesce(%(now_us)s, interlock.clock_us()) + %(lease_us)s, token = %(token)s
WHERE interlock.expect({schema}) AND repository = %(receiver)s AND number = 0 AND due_us <= coalesce(%(now_us)s, interlock.clock_us())
RETURNING repository, number
