-- Assign a dedupe key to the first item that brings it, until it expires.
INSERT INTO dedupe_keys (project, key, item, expires_us) VALUES (:project, :key, :item, :expires_us)
ON CONFLICT (project, key) DO UPDATE SET
    item = CASE WHEN expires_us <= :now_us THEN excluded.item ELSE item END,
    expires_us = CASE WHEN expires_us <= :now_us THEN excluded.expires_us ELSE expires_us END
RETURNING item
