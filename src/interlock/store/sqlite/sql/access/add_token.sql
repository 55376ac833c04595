-- Store the hash of a new token. Idempotent.
INSERT INTO tokens (id, name, scope, hash, created_us, expires_us)
VALUES (:id, :name, :scope, :hash, :now_us, :now_us + :kept_us)
ON CONFLICT (id) DO UPDATE SET name = excluded.name
RETURNING id, name, scope, hash, created_us, expires_us, used_us, revoked_us
