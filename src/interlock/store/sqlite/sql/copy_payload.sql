-- Copy the payload of a follow-up's parent.
INSERT INTO payloads (item, payload) SELECT ?2, payload FROM payloads WHERE item = ?1
