-- Renew the lease of an item's current run, by number and bits, but not past the grace of a cancel request. An external run has no
-- lease. Any other run changes nothing, nor does a mark above the last message. An open question has set the lease of a run without
-- a worker to its time-out: a renewal does not shorten it.
UPDATE items SET
    lease_until_us = min(
        max(:now_us + CAST(round(run_lease_s * 1000000) AS INTEGER), iif(reason = 'asked', lease_until_us, 0)),
        ifnull(revoke_us, 9223372036854775807)),
    due_us = iif(lease_until_us IS NULL, due_us, min(
        max(:now_us + CAST(round(run_lease_s * 1000000) AS INTEGER), iif(reason = 'asked', lease_until_us, 0)),
        ifnull(run_started_us + CAST(round(timeout_s * 1000000) AS INTEGER), 9223372036854775807),
        ifnull(revoke_us, 9223372036854775807))),
    seen = CASE WHEN :seen BETWEEN seen AND message_count THEN :seen ELSE seen END
WHERE id = :item AND run = :run AND run_bits = :bits
RETURNING *
