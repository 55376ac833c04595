-- Delete old answers of GitHub.
DELETE FROM interlock.github_answers WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_answers WHERE kept_us < %(before_us)s ORDER BY kept_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING 1
