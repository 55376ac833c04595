-- Unsent effects in the order of repository, number and place, with the time when their queue is due.
SELECT r.name, e.repository, e.number, e.place, e.name, e.kind, e.data, e.run, e.owed_us, e.tries, e.sent_us, e.done_us, e.dead_us, e.outcome, box.due_us
FROM github_effects AS e INDEXED BY github_effects_owed
JOIN github_repositories AS r ON r.id = e.repository
JOIN github_outboxes AS box ON box.repository = e.repository AND box.number = e.number
WHERE e.done_us IS NULL AND e.dead_us IS NULL AND (e.repository, e.number, e.place) > (:repository, :number, :place)
ORDER BY e.repository, e.number, e.place LIMIT :limit
