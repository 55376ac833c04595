-- An undecided delivery.
SELECT id, event, body, tries FROM github_deliveries WHERE id = :id AND body IS NOT NULL
