-- The mark moves by the token of its lease alone, which ends with it.
UPDATE interlock.marks SET seq = %(seq)s, tries = %(tries)s, token = NULL,
    until_us = coalesce(%(now_us)s, interlock.clock_us()) + %(wait_us)s
WHERE interlock.expect({schema}) AND name = %(name)s AND token = %(token)s
