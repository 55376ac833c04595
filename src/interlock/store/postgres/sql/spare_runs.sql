-- Mercy: the lease of every live run begins now. A living holder renews it within its span; a dead one, and one that renewed
-- by the wrong clock, holds its item for this span and no longer.
UPDATE interlock.items SET
    run_started_us = least(run_started_us, %(now_us)s),
    first_claimed_us = least(first_claimed_us, %(now_us)s),
    lease_until_us = least(%(now_us)s + (run_lease_s * 1000000)::bigint, revoke_us),
    due_us = least(%(now_us)s + (run_lease_s * 1000000)::bigint,
        least(run_started_us, %(now_us)s) + (timeout_s * 1000000)::bigint, revoke_us)
WHERE status = 'in_progress'
