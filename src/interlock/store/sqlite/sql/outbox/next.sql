-- In how long something can be taken; null if nothing is owed.
SELECT max(due_us, (SELECT free_us FROM github_pace)) - :now_us FROM github_outboxes WHERE due_us IS NOT NULL ORDER BY due_us LIMIT 1
