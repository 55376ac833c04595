-- Write the result of a look at a pull request or a commit, unless a newer revision was written meanwhile.
INSERT INTO github_heads
    (repository, number, commit_id, revision, head, branch, url, outcome, ci_outcome, ci_why, followed, head_us, ci_us, looked_us)
VALUES (:repository, :number, :commit_id, :revision, :head, :branch, :url, :outcome, :ci_outcome, :ci_why, :followed,
    :now_us, :now_us, :now_us)
ON CONFLICT (repository, number, commit_id) DO UPDATE
SET revision = excluded.revision, head = excluded.head, branch = excluded.branch, url = excluded.url, outcome = excluded.outcome,
    ci_outcome = excluded.ci_outcome, ci_why = excluded.ci_why, followed = excluded.followed, looked_us = excluded.looked_us,
    head_us = CASE WHEN github_heads.head = excluded.head THEN github_heads.head_us ELSE excluded.head_us END,
    ci_us = CASE WHEN github_heads.head = excluded.head AND github_heads.ci_outcome IS excluded.ci_outcome
        THEN github_heads.ci_us ELSE excluded.ci_us END
WHERE github_heads.revision = excluded.revision - 1
RETURNING revision
