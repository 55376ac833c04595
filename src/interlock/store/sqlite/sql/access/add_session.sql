-- Store the hash of a new session or link, which expires after a while and with its token.
INSERT INTO sessions (id, token, kind, hash, created_us, expires_us)
SELECT :id, id, :kind, :hash, :now_us, min(:now_us + :kept_us, coalesce(expires_us, :now_us + :kept_us)) FROM tokens
WHERE id = :token AND revoked_us IS NULL AND (expires_us IS NULL OR expires_us > :now_us)
RETURNING id
