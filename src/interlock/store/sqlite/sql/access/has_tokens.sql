-- Whether any token is valid.
SELECT EXISTS (SELECT 1 FROM tokens WHERE revoked_us IS NULL AND expires_us IS NULL)
    OR EXISTS (SELECT 1 FROM tokens WHERE revoked_us IS NULL AND expires_us > :now_us)
