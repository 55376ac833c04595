-- The time until an effect of GitHub can be taken; null if none is unsent.
SELECT greatest(due_us, (SELECT free_us FROM interlock.github_pace)) - (SELECT coalesce(%(now_us)s, interlock.clock_us()))
FROM interlock.github_outboxes WHERE due_us IS NOT NULL AND repository > 0 ORDER BY due_us LIMIT 1
