-- Postpone a delivery that could not be decided on, until its next try. Without a wait, it waits for a person.
UPDATE github_deliveries SET due_us = :now_us + :wait_us, tries = tries + 1, outcome = :why WHERE id = :id AND due_us IS NOT NULL
