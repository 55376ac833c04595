-- What was asked under a key, and answered.
SELECT asked, answer FROM requests WHERE key = :key
