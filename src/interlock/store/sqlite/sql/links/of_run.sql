-- The links of a run, the newest first.
SELECT run, item, repository, number, commit_id, how, linked_us, name, head, branch, url, outcome, ci_outcome, ci_why, head_us, ci_us, newest
FROM github_followed WHERE run = :run ORDER BY number DESC, linked_us DESC LIMIT :limit
