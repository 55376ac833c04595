-- Dedupe keys are kept for their span and then forgotten, some at a time.
DELETE FROM interlock.dedupe_keys WHERE (project, key) IN (
    SELECT project, key FROM interlock.dedupe_keys WHERE expires_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us()))
    ORDER BY expires_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
