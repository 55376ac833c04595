-- Completes one item if its run still is the current one; leaves the row that Interlock's finish leaves.
UPDATE items SET
    status = 'completed',
    due_us = NULL,
    run = NULL,
    run_bits = NULL,
    run_agent = NULL,
    run_started_us = NULL,
    run_lease_s = NULL,
    lease_until_us = NULL,
    ended_us = ?1,
    reason = 'reported',
    last_agent = run_agent
WHERE id = ?2 AND run = ?3 AND run_bits = ?4
RETURNING id;
