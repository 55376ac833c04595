-- Record that an open pull request closes an issue.
INSERT INTO github_closes (repository, issue, pull) VALUES (:repository, :issue, :pull) ON CONFLICT DO NOTHING
