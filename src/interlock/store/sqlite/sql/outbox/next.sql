-- The time until an effect of GitHub can be taken; null if none is unsent.
SELECT max(due_us, (SELECT free_us FROM github_pace)) - :now_us FROM github_outboxes WHERE due_us IS NOT NULL AND repository > 0 ORDER BY due_us LIMIT 1
