-- Add a block of a lane or an item. Writes nothing if it exists.
INSERT INTO blocks (lane, item, blocker, why, url, at_us) VALUES (:lane, :item, :blocker, :why, :url, :now_us)
ON CONFLICT DO UPDATE SET why = excluded.why, url = excluded.url WHERE why <> excluded.why OR url <> excluded.url
RETURNING blocker
