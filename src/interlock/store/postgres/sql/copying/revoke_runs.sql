-- End the leases of live runs, and let nobody have their handles. An external run has no lease, and stays.
UPDATE interlock.items SET lease_until_us = %(now_us)s, due_us = %(now_us)s, run_bits = %(bits)s
WHERE status = 'in_progress' AND lease_until_us IS NOT NULL
RETURNING run
