-- A lane or an item waits no longer: for one blocker, or for any.
DELETE FROM blocks WHERE lane = :lane AND item = :item AND (:blocker IS NULL OR blocker = :blocker) RETURNING blocker
