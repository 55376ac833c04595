-- Whether any token is valid.
SELECT EXISTS (SELECT 1 FROM interlock.tokens WHERE revoked_us IS NULL AND expires_us IS NULL)
    OR EXISTS (SELECT 1 FROM interlock.tokens
        WHERE revoked_us IS NULL AND expires_us > (SELECT coalesce(%(now_us)s, interlock.clock_us())))
