-- An unexpired session or link whose token is valid: its hash, and its token without the hash.
SELECT s.hash, t.id, t.name, t.scope, '', t.created_us, t.expires_us, t.used_us, t.revoked_us
FROM interlock.sessions AS s JOIN interlock.tokens AS t ON t.id = s.token
WHERE s.id = %(id)s AND s.kind = %(kind)s AND s.expires_us > coalesce(%(now_us)s, interlock.clock_us())
    AND t.revoked_us IS NULL AND (t.expires_us IS NULL OR t.expires_us > coalesce(%(now_us)s, interlock.clock_us()))
