-- The workflow runs of a commit, the newest first. The plus keeps SQLite from scanning those of all commits.
SELECT repository, id, head, attempt, name, status, conclusion, url, logs_url, logs_until_us, artifacts, begun_us
FROM github_workflow_runs WHERE +repository = :repository AND head = :head ORDER BY id DESC LIMIT :limit
