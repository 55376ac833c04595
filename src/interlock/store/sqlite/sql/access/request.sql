-- The request under a key, and its answer.
SELECT asked, answer FROM requests WHERE key = :key
