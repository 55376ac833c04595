-- A token that is neither revoked nor expired.
SELECT id, name, scope, hash, created_us, expires_us, used_us, revoked_us FROM tokens
WHERE id = :id AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > :now_us)
