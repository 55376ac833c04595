-- An answer of GitHub that was kept.
SELECT etag, body, link FROM interlock.github_answers WHERE key = %(key)s
