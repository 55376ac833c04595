-- Remove one block or all blocks of a lane or an item.
DELETE FROM blocks WHERE lane = :lane AND item = :item AND (:blocker IS NULL OR blocker = :blocker) RETURNING blocker
