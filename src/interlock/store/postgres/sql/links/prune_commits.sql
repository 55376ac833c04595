-- Delete old commits in no pull request.
DELETE FROM interlock.github_heads WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM interlock.github_heads
    WHERE number = 0 AND head_us < %(before_us)s ORDER BY head_us, repository, commit_id LIMIT %(limit)s FOR UPDATE)) RETURNING 1
