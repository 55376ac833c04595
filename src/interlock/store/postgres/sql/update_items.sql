-- Set the whole state of items, as decided, and the attempts that a retry granted.
UPDATE interlock.items AS i SET
    status = new.status, attempt = new.attempt, releases = new.releases, due_us = new.due_us, run = new.run,
    run_agent = new.run_agent, run_worker = new.run_worker, run_started_us = new.run_started_us,
    run_lease_s = new.run_lease_s, lease_until_us = new.lease_until_us, revoke_us = new.revoke_us,
    cancel_into = new.cancel_into, cancel_why = new.cancel_why, absorbed_by = new.absorbed_by,
    message_count = new.message_count, delivered = new.delivered, seen = new.seen, front = new.front,
    promoted_from = new.promoted_from, first_claimed_us = new.first_claimed_us, ended_us = new.ended_us,
    reason = new.reason, claim_by_us = new.claim_by_us, run_bits = new.run_bits,
    streak = new.streak, last_agent = new.last_agent, gated = new.gated, blocked = new.blocked, max_attempts = new.max_attempts
FROM unnest((SELECT %s::bigint[]),
        %s::text[], %s::integer[], %s::integer[], %s::bigint[], %s::bigint[], %s::text[],
        %s::text[], %s::bigint[], %s::float8[], %s::bigint[], %s::bigint[], %s::text[], %s::text[],
        %s::bigint[], %s::integer[], %s::integer[], %s::integer[], %s::boolean[], %s::bigint[],
        %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::integer[], %s::text[], %s::boolean[], %s::boolean[], %s::integer[]
    ) AS new(
        id, status, attempt, releases, due_us, run, run_agent, run_worker, run_started_us, run_lease_s,
        lease_until_us, revoke_us, cancel_into, cancel_why, absorbed_by, message_count, delivered, seen,
        front, promoted_from, first_claimed_us, ended_us, reason, claim_by_us, run_bits, streak, last_agent, gated,
        blocked, max_attempts
    )
WHERE i.id = new.id
