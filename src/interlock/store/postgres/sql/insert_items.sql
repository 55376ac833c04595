-- Add items in the decided state. Labels come as one text each, joined by spaces.
INSERT INTO interlock.items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane,
    observed_lane, labels, lease_s, timeout_s, max_attempts, retry_lane, created_us, status, attempt,
    releases, due_us, run, run_agent, run_worker, run_started_us, run_lease_s, lease_until_us,
    revoke_us, cancel_into, cancel_why, absorbed_by, message_count, delivered, seen, front,
    promoted_from, first_claimed_us, ended_us, reason, claim_by_us, claim_within_s, plan, run_bits, streak, last_agent, gated, blocked
)
SELECT
    new.id, new.project, new.type, new.title, new.agent_key, new.policy, new.priority, new.position,
    new.ticket, new.sort_key, new.lane, new.observed_lane, string_to_array(new.labels, ' '),
    new.lease_s, new.timeout_s, new.max_attempts, new.retry_lane, new.created_us, new.status,
    new.attempt, new.releases, new.due_us, new.run, new.run_agent, new.run_worker, new.run_started_us,
    new.run_lease_s, new.lease_until_us, new.revoke_us, new.cancel_into, new.cancel_why,
    new.absorbed_by, new.message_count, new.delivered, new.seen, new.front, new.promoted_from,
    new.first_claimed_us, new.ended_us, new.reason, new.claim_by_us, new.claim_within_s, new.plan, new.run_bits,
    new.streak, new.last_agent, new.gated, new.blocked
FROM unnest(
        %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::integer[],
        %s::integer[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::float8[],
        %s::float8[], %s::integer[], %s::text[], %s::bigint[], %s::text[], %s::integer[], %s::integer[],
        %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::float8[], %s::bigint[],
        %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::integer[], %s::integer[], %s::integer[],
        %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bigint[], %s::float8[], %s::bigint[], %s::bigint[],
        %s::integer[], %s::text[], %s::boolean[], %s::boolean[]
    ) AS new(
        id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane,
        observed_lane, labels, lease_s, timeout_s, max_attempts, retry_lane, created_us, status,
        attempt, releases, due_us, run, run_agent, run_worker, run_started_us, run_lease_s,
        lease_until_us, revoke_us, cancel_into, cancel_why, absorbed_by, message_count, delivered, seen,
        front, promoted_from, first_claimed_us, ended_us, reason, claim_by_us, claim_within_s, plan, run_bits, streak, last_agent, gated, blocked
    )
