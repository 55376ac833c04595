-- Record an order as carried out, with its outcome.
UPDATE github_consequences SET due_us = NULL, done_us = :now_us, item = :item, outcome = :outcome
WHERE repository = :repository AND number = :number AND name = :name AND done_us IS NULL RETURNING name
