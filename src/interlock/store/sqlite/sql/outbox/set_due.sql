-- Set when a queue, leased or not, is due: after a wait; null if it is empty.
UPDATE github_outboxes AS box SET token = :token, due_us = CASE WHEN EXISTS (
    SELECT 1 FROM github_effects AS e INDEXED BY github_effects_owed
    WHERE e.repository = box.repository AND e.number = box.number AND e.done_us IS NULL AND e.dead_us IS NULL
) THEN :now_us + :wait_us END
WHERE box.repository = :repository AND box.number = :number AND box.token IS :held
