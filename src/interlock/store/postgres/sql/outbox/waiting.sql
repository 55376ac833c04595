-- Unsent effects in the order of repository, number and place, with the time when their queue is due.
SELECT r.name, e.repository, e.number, e.place, e.name, e.kind, e.data, e.run, e.owed_us, e.tries, e.sent_us, e.done_us, e.dead_us, e.outcome, box.due_us
FROM interlock.github_effects AS e
JOIN interlock.github_repositories AS r ON r.id = e.repository
JOIN interlock.github_outboxes AS box ON box.repository = e.repository AND box.number = e.number
WHERE e.done_us IS NULL AND e.dead_us IS NULL AND (e.repository, e.number, e.place) > (%(repository)s, %(number)s, %(place)s)
ORDER BY e.repository, e.number, e.place LIMIT %(limit)s
