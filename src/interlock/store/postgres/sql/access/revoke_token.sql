-- Revoke a token. The first time counts.
UPDATE interlock.tokens SET revoked_us = coalesce(revoked_us, coalesce(%(now_us)s, interlock.clock_us())) WHERE id = %(id)s
RETURNING id, name, scope, '', created_us, expires_us, used_us, revoked_us
