-- Undoes claims, so that the same items can be claimed again.
UPDATE items SET
    status = 'pending', attempt = 0, due_us = NULL, run = NULL, run_bits = NULL, run_agent = NULL,
    run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, first_claimed_us = NULL
WHERE status = 'in_progress' AND due_us IS NOT NULL;
