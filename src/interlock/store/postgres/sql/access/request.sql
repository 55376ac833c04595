-- The request under a key, and its answer.
SELECT asked, answer FROM interlock.requests WHERE key = %(key)s
