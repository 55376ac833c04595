-- The open pull requests that close any of these issues.
SELECT issue, pull FROM github_closes
WHERE repository = :repository AND issue IN (SELECT value FROM json_each(:issues)) ORDER BY issue, pull LIMIT :limit
