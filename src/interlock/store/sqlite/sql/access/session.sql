-- An unexpired session or link whose token is valid: its hash, and its token without the hash.
SELECT s.hash, t.id, t.name, t.scope, '', t.created_us, t.expires_us, t.used_us, t.revoked_us
FROM sessions AS s JOIN tokens AS t ON t.id = s.token
WHERE s.id = :id AND s.kind = :kind AND s.expires_us > :now_us
    AND t.revoked_us IS NULL AND (t.expires_us IS NULL OR t.expires_us > :now_us)
