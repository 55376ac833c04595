-- A new token, of which only a hash is kept; written once, also if it is sent again.
INSERT INTO interlock.tokens (id, name, scope, hash, created_us, expires_us)
VALUES (%(id)s, %(name)s, %(scope)s, %(hash)s, coalesce(%(now_us)s, interlock.clock_us()), coalesce(%(now_us)s, interlock.clock_us()) + %(kept_us)s::bigint)
ON CONFLICT (id) DO UPDATE SET name = excluded.name
RETURNING id, name, scope, hash, created_us, expires_us, used_us, revoked_us
