-- Set an item's payload from an edit, whether or not it existed.
INSERT INTO payloads (item, payload) VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET payload = excluded.payload
