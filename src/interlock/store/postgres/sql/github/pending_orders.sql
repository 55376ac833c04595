-- The pending orders of a number, in order; one that waits for a person lets the next ones pass.
SELECT name, data, tries, due_us FROM interlock.github_consequences
WHERE repository = %(repository)s AND number = %(number)s AND done_us IS NULL AND due_us IS NOT NULL ORDER BY place LIMIT %(limit)s
