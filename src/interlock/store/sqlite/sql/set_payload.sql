-- An item's payload is what an edit says, whatever it was.
INSERT INTO payloads (item, payload) VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET payload = excluded.payload
