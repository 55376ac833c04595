-- A token that is neither revoked nor expired.
SELECT id, name, scope, hash, created_us, expires_us, used_us, revoked_us FROM interlock.tokens
WHERE id = %(id)s AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > coalesce(%(now_us)s, interlock.clock_us()))
