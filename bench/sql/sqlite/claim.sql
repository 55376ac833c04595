-- Starts the first ready items for anyone, in order; leaves the rows that Interlock's claim leaves.
UPDATE items SET
    status = 'in_progress',
    attempt = attempt + 1,
    run = :first_run + picked.nth,
    run_bits = random(),
    run_agent = :agent,
    run_started_us = :now_us,
    run_lease_s = 60,
    lease_until_us = :now_us + 60000000,
    due_us = :now_us + 60000000,
    delivered = message_count,
    first_claimed_us = :now_us
FROM (
    SELECT id AS item, row_number() OVER (ORDER BY sort_key) - 1 AS nth
    FROM (
        SELECT id, sort_key FROM items
        WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
        ORDER BY sort_key LIMIT :batch
    )
) AS picked
WHERE id = picked.item
RETURNING id, run, title, project, created_us;
