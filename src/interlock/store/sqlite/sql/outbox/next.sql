-- The time until an effect can be taken; null if none is unsent.
SELECT max(due_us, (SELECT free_us FROM github_pace)) - :now_us FROM github_outboxes WHERE due_us IS NOT NULL ORDER BY due_us LIMIT 1
