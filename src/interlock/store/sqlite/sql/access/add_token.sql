-- A new token, of which only a hash is kept.
INSERT INTO tokens (id, name, scope, hash, created_us, expires_us)
VALUES (:id, :name, :scope, :hash, :now_us, :now_us + :kept_us)
RETURNING id, name, scope, hash, created_us, expires_us, used_us, revoked_us
