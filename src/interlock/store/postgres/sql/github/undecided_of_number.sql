-- Undecided deliveries about a number, the oldest first.
SELECT id, event, received_us, due_us, tries, outcome FROM interlock.github_deliveries
WHERE body IS NOT NULL AND repository = %(repository)s AND number = %(number)s ORDER BY received_us LIMIT %(limit)s
