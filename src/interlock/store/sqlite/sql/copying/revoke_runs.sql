-- End the leases of live runs, and let nobody have their handles. An external run has no lease, and stays.
UPDATE items SET lease_until_us = :now_us, due_us = :now_us, run_bits = :bits
WHERE status = 'in_progress' AND lease_until_us IS NOT NULL
RETURNING run
