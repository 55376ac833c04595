-- An edit gives an item a payload, whether or not it had one.
INSERT INTO payloads (item, payload) VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET payload = excluded.payload
