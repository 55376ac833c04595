-- Delete old decided deliveries.
DELETE FROM interlock.github_deliveries WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_deliveries WHERE body IS NULL AND received_us < %(before_us)s ORDER BY received_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING 1
