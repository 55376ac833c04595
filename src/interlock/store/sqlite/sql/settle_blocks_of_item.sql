-- An item that has not ended has its flag exactly while it has a block of its own.
UPDATE items SET blocked = NOT blocked
WHERE id = :item AND ended_us IS NULL AND blocked <> EXISTS (SELECT 1 FROM blocks b WHERE b.lane = '' AND b.item = items.id)
