-- The time until an effect of a receiver can be taken; null if none is unsent.
SELECT due_us - coalesce(%(now_us)s, interlock.clock_us()) FROM interlock.github_outboxes
WHERE repository = %(receiver)s AND number = 0 AND due_us IS NOT NULL
