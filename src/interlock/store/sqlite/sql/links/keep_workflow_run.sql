-- Write a workflow run. An older attempt changes nothing.
INSERT INTO github_workflow_runs
    (repository, id, head, attempt, name, status, conclusion, url, logs_url, logs_until_us, artifacts, begun_us)
VALUES (:repository, :id, :head, :attempt, :name, :status, :conclusion, :url, :logs_url, :logs_until_us, :artifacts, :begun_us)
ON CONFLICT (repository, id) DO UPDATE
SET attempt = excluded.attempt, name = excluded.name, status = excluded.status, conclusion = excluded.conclusion, url = excluded.url,
    logs_url = excluded.logs_url, logs_until_us = excluded.logs_until_us, artifacts = excluded.artifacts, begun_us = excluded.begun_us
WHERE github_workflow_runs.attempt <= excluded.attempt
RETURNING id
