-- Store the hash of a new session or link, which expires after a while and with its token.
INSERT INTO interlock.sessions (id, token, kind, hash, created_us, expires_us)
SELECT %(id)s, id, %(kind)s, %(hash)s, coalesce(%(now_us)s, interlock.clock_us()), least(coalesce(%(now_us)s, interlock.clock_us()) + %(kept_us)s::bigint, coalesce(expires_us, coalesce(%(now_us)s, interlock.clock_us()) + %(kept_us)s::bigint)) FROM interlock.tokens
WHERE id = %(token)s AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > coalesce(%(now_us)s, interlock.clock_us()))
RETURNING id
