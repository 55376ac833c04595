-- An answer of GitHub that was kept.
SELECT etag, body, link FROM github_answers WHERE key = :key
