-- Postpone an effect that could not be carried out. Without a wait, it is left to a person.
UPDATE interlock.github_effects SET tries = tries + %(failed)s, outcome = %(why)s,
    sent_us = CASE WHEN %(maybe_sent)s = 1 THEN sent_us END,
    dead_us = CASE WHEN %(wait_us)s::bigint IS NULL THEN coalesce(%(now_us)s, interlock.clock_us()) END
WHERE repository = %(repository)s AND number = %(number)s AND place = %(place)s AND done_us IS NULL AND dead_us IS NULL
