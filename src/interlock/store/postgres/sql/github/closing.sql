-- The open pull requests that close any of these issues.
SELECT issue, pull FROM interlock.github_closes
WHERE repository = %(repository)s AND issue = ANY (%(issues)s::bigint[]) ORDER BY issue, pull LIMIT %(limit)s
