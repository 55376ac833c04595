-- The workflow runs of a commit, the newest first. They are few; without OFFSET the planner would scan those of all commits.
SELECT repository, id, head, attempt, name, status, conclusion, url, logs_url, logs_until_us, artifacts, begun_us
FROM (SELECT * FROM interlock.github_workflow_runs WHERE repository = %(repository)s AND head = %(head)s OFFSET 0) AS of_commit
ORDER BY id DESC LIMIT %(limit)s
