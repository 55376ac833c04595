-- The tokens among some that are neither revoked nor expired.
SELECT id FROM interlock.tokens
WHERE id = ANY(%(ids)s::text[]) AND revoked_us IS NULL
    AND (expires_us IS NULL OR expires_us > coalesce(%(now_us)s, interlock.clock_us()))
