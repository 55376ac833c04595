-- Remove one block or all blocks of a lane or an item. An item is locked first, as for a new block.
WITH locked AS MATERIALIZED (SELECT id FROM interlock.items WHERE id = %(item)s FOR NO KEY UPDATE)
DELETE FROM interlock.blocks
WHERE lane = %(lane)s AND item = %(item)s AND (%(blocker)s::text IS NULL OR blocker = %(blocker)s) AND (SELECT count(*) FROM locked) >= 0
RETURNING blocker
