-- Delete up to :limit expired dedupe keys.
DELETE FROM dedupe_keys WHERE (project, key) IN (
    SELECT project, key FROM dedupe_keys WHERE expires_us <= :now_us ORDER BY expires_us LIMIT :limit)
