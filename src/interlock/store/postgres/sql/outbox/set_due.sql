-- Set when a queue, leased or not, is due: after a wait; null if it is empty.
UPDATE interlock.github_outboxes AS box SET token = %(token)s, due_us = CASE WHEN EXISTS (
    SELECT FROM interlock.github_effects AS e
    WHERE e.repository = box.repository AND e.number = box.number AND e.done_us IS NULL AND e.dead_us IS NULL
) THEN coalesce(%(now_us)s, interlock.clock_us()) + %(wait_us)s END
WHERE box.repository = %(repository)s AND box.number = %(number)s AND box.token IS NOT DISTINCT FROM %(held)s
