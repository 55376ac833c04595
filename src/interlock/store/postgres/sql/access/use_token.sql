-- Record the last use of a token, once a minute at most.
UPDATE interlock.tokens SET used_us = coalesce(%(now_us)s, interlock.clock_us()) WHERE id = %(id)s AND coalesce(used_us, 0) <= coalesce(%(now_us)s, interlock.clock_us()) - 60000000
