-- Set the flag of a lane exactly while it is blocked.
UPDATE lanes SET blocked = NOT blocked
WHERE lane = :lane AND blocked <> EXISTS (SELECT 1 FROM blocks b WHERE b.lane = lanes.lane AND b.item = 0)
