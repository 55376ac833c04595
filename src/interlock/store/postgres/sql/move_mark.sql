-- Move the mark, only by the token of its lease, which then ends.
UPDATE interlock.marks SET seq = %(seq)s, tries = %(tries)s, token = NULL,
    until_us = coalesce(%(now_us)s, interlock.clock_us()) + %(wait_us)s
WHERE interlock.expect({schema}) AND name = %(name)s AND token = %(token)s RETURNING name
