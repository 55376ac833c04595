-- Postpone an order that could not be carried out, until its next try. Without a wait, it waits for a person.
UPDATE github_consequences SET due_us = :now_us + :wait_us, tries = tries + 1, outcome = :why
WHERE repository = :repository AND number = :number AND name = :name AND due_us IS NOT NULL
