-- Store the hash of a new token. Idempotent.
INSERT INTO interlock.tokens (id, name, scope, hash, created_us, expires_us)
VALUES (%(id)s, %(name)s, %(scope)s, %(hash)s, coalesce(%(now_us)s, interlock.clock_us()), coalesce(%(now_us)s, interlock.clock_us()) + %(kept_us)s::bigint)
ON CONFLICT (id) DO UPDATE SET name = excluded.name
RETURNING id, name, scope, hash, created_us, expires_us, used_us, revoked_us
