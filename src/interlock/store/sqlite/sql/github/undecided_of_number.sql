-- Undecided deliveries about a number, the oldest first.
SELECT id, event, received_us, due_us, tries, outcome FROM github_deliveries
WHERE body IS NOT NULL AND repository = :repository AND number = :number ORDER BY received_us LIMIT :limit
