-- Delete some expired answers.
DELETE FROM requests WHERE key IN (SELECT key FROM requests WHERE at_us <= :now_us - :kept_us ORDER BY at_us LIMIT :limit)
RETURNING key
