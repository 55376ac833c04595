-- The runs linked to a pull request, the newest first.
SELECT run, item, repository, number, commit_id, how, linked_us, name, head, branch, url, outcome, ci_outcome, ci_why, head_us, ci_us, newest
FROM github_followed WHERE repository = :repository AND number = :number ORDER BY run DESC LIMIT :limit
