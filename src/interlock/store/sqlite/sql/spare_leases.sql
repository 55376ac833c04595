-- Give every live run at least one more span of its lease, but not past the grace of a cancel request.
UPDATE items SET
    lease_until_us = max(lease_until_us, min(
        :now_us + CAST(round(run_lease_s * 1000000) AS INTEGER), ifnull(revoke_us, 9223372036854775807))),
    due_us = max(due_us, min(
        :now_us + CAST(round(run_lease_s * 1000000) AS INTEGER),
        ifnull(run_started_us + CAST(round(timeout_s * 1000000) AS INTEGER), 9223372036854775807),
        ifnull(revoke_us, 9223372036854775807)))
WHERE status = 'in_progress' AND run_lease_s IS NOT NULL
