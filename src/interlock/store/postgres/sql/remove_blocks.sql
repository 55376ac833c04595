-- A lane or an item waits no longer: for one blocker, or for any. An item is locked first, as when it was blocked.
WITH locked AS MATERIALIZED (SELECT id FROM interlock.items WHERE id = %(item)s FOR NO KEY UPDATE)
DELETE FROM interlock.blocks
WHERE lane = %(lane)s AND item = %(item)s AND (%(blocker)s::text IS NULL OR blocker = %(blocker)s) AND (SELECT count(*) FROM locked) >= 0
RETURNING blocker
