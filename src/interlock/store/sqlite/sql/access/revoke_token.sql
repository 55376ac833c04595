-- Revoke a token. The first time counts.
UPDATE tokens SET revoked_us = coalesce(revoked_us, :now_us) WHERE id = :id
RETURNING id, name, scope, '', created_us, expires_us, used_us, revoked_us
