-- A stored answer of GitHub.
SELECT etag, body, link FROM github_answers WHERE key = :key
