-- An item that has not ended has its flag exactly while it has a block of its own.
UPDATE interlock.items AS i SET blocked = NOT blocked
WHERE id = %(item)s AND ended_us IS NULL AND blocked <> EXISTS (SELECT FROM interlock.blocks b WHERE b.lane = '' AND b.item = i.id)
