-- What is owed for any number, or waits for a person; by number and in order.
SELECT repository, number, name, due_us, tries, outcome FROM interlock.github_consequences
WHERE done_us IS NULL ORDER BY repository, number, place LIMIT %(limit)s
