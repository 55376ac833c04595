-- A lane or an item waits for a blocker; nothing is written if that is known already.
INSERT INTO blocks (lane, item, blocker, why, url, at_us) VALUES (:lane, :item, :blocker, :why, :url, :at_us)
ON CONFLICT DO UPDATE SET why = excluded.why, url = excluded.url WHERE why <> excluded.why OR url <> excluded.url
RETURNING blocker
