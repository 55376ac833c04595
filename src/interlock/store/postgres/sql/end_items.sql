-- End items as decided. They keep no data of a run, so few columns suffice.
UPDATE interlock.items AS i SET
    status = new.status, attempt = new.attempt, releases = 0, due_us = NULL, run = NULL, run_bits = NULL, run_agent = NULL,
    run_worker = NULL, run_started_us = NULL, run_lease_s = NULL, lease_until_us = NULL, revoke_us = NULL,
    cancel_into = NULL, cancel_why = NULL, absorbed_by = new.absorbed_by, message_count = new.message_count,
    delivered = new.delivered, seen = new.seen, front = false, promoted_from = NULL, ended_us = new.ended_us,
    reason = new.reason, claim_by_us = NULL, last_agent = coalesce(i.run_agent, i.last_agent), gated = false, blocked = false, max_attempts = new.max_attempts
FROM unnest((SELECT %s::bigint[]), %s::text[], %s::integer[], %s::bigint[], %s::integer[],
        %s::integer[], %s::integer[], %s::bigint[], %s::text[], %s::integer[]
    ) AS new(id, status, attempt, absorbed_by, message_count, delivered, seen, ended_us, reason, max_attempts)
WHERE i.id = new.id
