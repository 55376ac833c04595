-- Dedupe keys are kept for their span and then forgotten, some at a time.
DELETE FROM dedupe_keys WHERE (project, key) IN (
    SELECT project, key FROM dedupe_keys WHERE expires_us <= :now_us ORDER BY expires_us LIMIT :limit)
