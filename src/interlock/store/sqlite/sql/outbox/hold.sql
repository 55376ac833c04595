-- Whether a lease holds.
SELECT 1 FROM github_outboxes
WHERE repository = :repository AND number = :number AND token = :token
