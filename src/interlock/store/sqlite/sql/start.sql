-- Start runs of one agent on items, numbered in the order in which they are named. `random()` draws 64 bits for each row from a
-- generator that SQLite seeds from the system in every process, also in a forked one. An external run gets no lease: only a timeout of
-- its item ends it.
UPDATE items SET
    status = 'in_progress',
    attempt = attempt + 1,
    run = :first_run + picked.nth,
    run_bits = random(),
    run_agent = :agent,
    run_worker = :worker,
    run_started_us = :now_us,
    run_lease_s = iif(:external, NULL, coalesce(:lease_s, lease_s, :default_lease_s)),
    lease_until_us = iif(:external, NULL,
        :now_us + CAST(round(coalesce(:lease_s, lease_s, :default_lease_s) * 1000000) AS INTEGER)),
    due_us = :now_us + CAST(round(iif(:external, timeout_s, min(
        coalesce(:lease_s, lease_s, :default_lease_s),
        coalesce(timeout_s, :lease_s, lease_s, :default_lease_s))) * 1000000) AS INTEGER),
    claim_by_us = NULL,
    delivered = min(message_count, 1000),
    seen = 0,
    first_claimed_us = ifnull(first_claimed_us, :now_us)
FROM (SELECT key AS nth, value AS item FROM json_each(:items)) AS picked
WHERE items.id = picked.item AND items.status = 'pending'
RETURNING *
