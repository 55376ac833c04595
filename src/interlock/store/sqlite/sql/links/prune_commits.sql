-- Delete old commits in no pull request.
DELETE FROM github_heads WHERE (repository, number, commit_id) IN (
    SELECT repository, number, commit_id FROM github_heads INDEXED BY github_heads_commits
    WHERE number = 0 AND head_us < :before_us ORDER BY head_us, repository, commit_id LIMIT :limit) RETURNING 1
