-- Move all deadlines after a span with the clock. A time that was set for an item's start stays.
UPDATE items SET
    due_us = iif(status = 'in_progress' OR (attempt > 0 AND reason <> 'quota_wall'), due_us + :step_us, due_us),
    run_started_us = run_started_us + :step_us,
    lease_until_us = lease_until_us + :step_us,
    revoke_us = revoke_us + :step_us,
    claim_by_us = claim_by_us + :step_us
WHERE status IN ('waiting', 'deferred', 'pending', 'in_progress') AND (due_us IS NOT NULL OR claim_by_us IS NOT NULL OR run IS NOT NULL)
