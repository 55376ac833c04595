-- Delete old settled effects.
DELETE FROM interlock.github_effects WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_effects WHERE done_us < %(before_us)s ORDER BY done_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING 1
