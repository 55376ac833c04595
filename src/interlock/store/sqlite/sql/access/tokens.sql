-- Tokens, the oldest first, without their hashes.
SELECT id, name, scope, '', created_us, expires_us, used_us, revoked_us FROM tokens ORDER BY created_us, id LIMIT :limit
