-- Issues that more than one open pull request closes: the repository, the issue, and how many pull requests.
SELECT r.name, c.issue, count(*) FROM interlock.github_closes AS c JOIN interlock.github_repositories AS r ON r.id = c.repository
GROUP BY c.repository, r.name, c.issue HAVING count(*) > 1 ORDER BY c.repository, c.issue LIMIT %(limit)s
