-- Delete some expired dedupe keys, and some blocks of ended items.
WITH ended AS MATERIALIZED (
    SELECT b.item FROM interlock.blocks AS b WHERE b.item <> 0 AND NOT EXISTS (
        SELECT FROM interlock.items AS i WHERE i.id = b.item AND i.ended_us IS NULL) LIMIT %(limit)s
), unblocked AS (DELETE FROM interlock.blocks WHERE lane = '' AND item IN (SELECT item FROM ended))
DELETE FROM interlock.dedupe_keys WHERE (project, key) IN (
    SELECT project, key FROM interlock.dedupe_keys WHERE expires_us <= (SELECT coalesce(%(now_us)s, interlock.clock_us()))
    ORDER BY expires_us LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
