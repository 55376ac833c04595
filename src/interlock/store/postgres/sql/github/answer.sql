-- A stored answer of GitHub.
SELECT etag, body, link FROM interlock.github_answers WHERE key = %(key)s
