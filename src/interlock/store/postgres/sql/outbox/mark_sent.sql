-- Mark an effect as possibly sent.
UPDATE interlock.github_effects SET sent_us = coalesce(%(now_us)s, interlock.clock_us())
WHERE repository = %(repository)s AND number = %(number)s AND place = %(place)s
