-- Mark an effect as carried out or dropped.
UPDATE interlock.github_effects SET done_us = coalesce(%(now_us)s, interlock.clock_us()), made = %(made)s, outcome = %(outcome)s
WHERE repository = %(repository)s AND number = %(number)s AND place = %(place)s AND done_us IS NULL AND dead_us IS NULL
