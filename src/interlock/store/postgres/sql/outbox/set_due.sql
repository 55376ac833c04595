-- A queue that somebody has, or nobody, is due when its next effect is; null if it is empty.
UPDATE interlock.github_outboxes AS box SET token = %(token)s, due_us = CASE WHEN EXISTS (
    SELECT FROM interlock.github_effects AS e
    WHERE e.repository = box.repository AND e.number = box.number AND e.done_us IS NULL AND e.dead_us IS NULL
        AND (e.after_us IS NULL OR e.after_us <= clock.now_us)
) THEN clock.now_us + %(wait_us)s ELSE (
    SELECT min(e.after_us) FROM interlock.github_effects AS e
    WHERE e.repository = box.repository AND e.number = box.number AND e.done_us IS NULL AND e.dead_us IS NULL
) END
FROM (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock
WHERE box.repository = %(repository)s AND box.number = %(number)s AND box.token IS NOT DISTINCT FROM %(held)s
