-- Payloads stay off the row that a claim touches.
INSERT INTO payloads (item, payload) VALUES (?, ?)
