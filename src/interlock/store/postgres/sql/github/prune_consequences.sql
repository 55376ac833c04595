-- Delete old carried out orders.
DELETE FROM interlock.github_consequences WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_consequences WHERE done_us < %(before_us)s ORDER BY done_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING 1
