-- What was asked under a key, and answered.
SELECT asked, answer FROM interlock.requests WHERE key = %(key)s
