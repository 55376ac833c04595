-- A new token, of which only a hash is kept; written once, also if it is sent again.
INSERT INTO tokens (id, name, scope, hash, created_us, expires_us)
VALUES (:id, :name, :scope, :hash, :now_us, :now_us + :kept_us)
ON CONFLICT (id) DO UPDATE SET name = excluded.name
RETURNING id, name, scope, hash, created_us, expires_us, used_us, revoked_us
