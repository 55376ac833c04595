-- Assign dedupe keys to the first items that bring them, until they expire. Gives the new keys. It waits for another transaction with
-- the same key.
INSERT INTO interlock.dedupe_keys AS k (project, key, item, expires_us)
SELECT * FROM unnest(%(projects)s::text[], %(keys)s::text[], %(items)s::bigint[], %(expires)s::bigint[])
ON CONFLICT (project, key) DO UPDATE SET item = excluded.item, expires_us = excluded.expires_us
    WHERE k.expires_us <= %(now_us)s
RETURNING project, key
