-- Set the whole state of an item, as decided, and the attempts that a retry granted.
UPDATE items SET
    status = ?2, attempt = ?3, releases = ?4, due_us = ?5, run = ?6, run_agent = ?7, run_worker = ?8,
    run_started_us = ?9, run_lease_s = ?10, lease_until_us = ?11, revoke_us = ?12, cancel_into = ?13,
    cancel_why = ?14, absorbed_by = ?15, message_count = ?16, delivered = ?17, seen = ?18, front = ?19,
    promoted_from = ?20, first_claimed_us = ?21, ended_us = ?22, reason = ?23,
    claim_by_us = ?24, run_bits = ?25, streak = ?26, last_agent = ?27, gated = ?28, blocked = ?29, max_attempts = ?30
WHERE id = ?1
