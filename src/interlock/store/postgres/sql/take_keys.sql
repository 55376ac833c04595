-- A dedupe key belongs to the first item that brought it, until it is forgotten. Gives the keys that are new;
-- waits for another transaction that is bringing the same key.
INSERT INTO interlock.dedupe_keys AS k (project, key, item, expires_us)
SELECT * FROM unnest(%(projects)s::text[], %(keys)s::text[], %(items)s::bigint[], %(expires)s::bigint[])
ON CONFLICT (project, key) DO UPDATE SET item = excluded.item, expires_us = excluded.expires_us
    WHERE k.expires_us <= %(now_us)s
RETURNING project, key
