-- The tokens among some that are neither revoked nor expired.
SELECT id FROM tokens
WHERE id IN (SELECT value FROM json_each(:ids)) AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > :now_us)
