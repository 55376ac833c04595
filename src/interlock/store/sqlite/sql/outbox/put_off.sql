-- Postpone an effect that could not be carried out. Without a wait, it is left to a person.
UPDATE github_effects SET tries = tries + :failed, outcome = :why,
    sent_us = CASE WHEN :maybe_sent = 1 THEN sent_us END,
    dead_us = CASE WHEN :wait_us IS NULL THEN :now_us END
WHERE repository = :repository AND number = :number AND place = :place AND done_us IS NULL AND dead_us IS NULL
