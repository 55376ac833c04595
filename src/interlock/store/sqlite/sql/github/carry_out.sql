-- Something that was owed is carried out.
UPDATE github_consequences SET due_us = NULL, done_us = :now_us, item = :item, outcome = :outcome
WHERE repository = :repository AND number = :number AND name = :name AND done_us IS NULL RETURNING name
