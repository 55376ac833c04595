-- Record that an open pull request closes an issue.
INSERT INTO interlock.github_closes (repository, issue, pull) VALUES (%(repository)s, %(issue)s, %(pull)s) ON CONFLICT DO NOTHING
