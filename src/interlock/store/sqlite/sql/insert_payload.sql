-- Add a payload, separate from the row that a claim writes.
INSERT INTO payloads (item, payload) VALUES (?, ?)
