-- Restart the lease of every live run now. A live holder renews it in time. A dead one, and one that renewed by the wrong clock, keeps
-- its item only for this span. An external run has no lease, and continues.
UPDATE interlock.items SET
    run_started_us = least(run_started_us, %(now_us)s),
    first_claimed_us = least(first_claimed_us, %(now_us)s),
    lease_until_us = CASE WHEN lease_until_us IS NOT NULL THEN least(%(now_us)s + (run_lease_s * 1000000)::bigint, revoke_us) END,
    due_us = least(%(now_us)s + (run_lease_s * 1000000)::bigint,
        least(run_started_us, %(now_us)s) + (timeout_s * 1000000)::bigint, revoke_us)
WHERE status = 'in_progress'
