-- Delete links to old commits in no pull request.
DELETE FROM interlock.github_links WHERE ctid = ANY(ARRAY(
    SELECT l.ctid FROM (SELECT repository, commit_id FROM interlock.github_heads
        WHERE number = 0 AND head_us < %(before_us)s ORDER BY head_us, repository, commit_id LIMIT %(limit)s FOR UPDATE) AS gone
    CROSS JOIN LATERAL (SELECT ctid FROM interlock.github_links
        WHERE repository = gone.repository AND number = 0 AND commit_id = gone.commit_id) AS l)) RETURNING 1
