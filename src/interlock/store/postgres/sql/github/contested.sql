-- Issues that several open pull requests close: the repository, the issue, and the number of pull requests.
SELECT r.name, c.issue, count(*) FROM interlock.github_closes AS c JOIN interlock.github_repositories AS r ON r.id = c.repository
GROUP BY c.repository, r.name, c.issue HAVING count(*) > 1 ORDER BY c.repository, c.issue LIMIT %(limit)s
