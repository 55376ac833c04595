-- A payload, kept off the row that a claim touches.
INSERT INTO payloads (item, payload) VALUES (?, ?)
