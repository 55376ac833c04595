-- Lease the queue of a receiver if it is due.
UPDATE github_outboxes SET due_us = :now_us + :lease_us, token = :token
WHERE repository = :receiver AND number = 0 AND due_us <= :now_us
RETURNING repository, number
