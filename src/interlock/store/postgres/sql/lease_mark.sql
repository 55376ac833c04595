-- Lease the mark to one process, if it is unmoved and no lease or wait holds it.
UPDATE interlock.marks SET token = %(token)s, until_us = coalesce(%(now_us)s, interlock.clock_us()) + %(lease_us)s
WHERE interlock.expect({schema}) AND name = %(name)s AND seq = %(seq)s AND tries = %(tries)s
    AND until_us <= coalesce(%(now_us)s, interlock.clock_us()) RETURNING name
