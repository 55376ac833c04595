-- Add an item in the decided state.
INSERT INTO items (
    id, project, type, title, agent_key, policy, priority, position, ticket, sort_key, lane,
    observed_lane, labels, lease_s, timeout_s, max_attempts, retry_lane, created_us, status, attempt,
    releases, due_us, run, run_agent, run_worker, run_started_us, run_lease_s, lease_until_us,
    revoke_us, cancel_into, cancel_why, absorbed_by, message_count, delivered, seen, front,
    promoted_from, first_claimed_us, ended_us, reason, claim_by_us, claim_within_s, plan, run_bits, streak, last_agent, gated, blocked
) VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)
