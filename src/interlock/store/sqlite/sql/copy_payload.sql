-- A follow-up gets its parent's payload.
INSERT INTO payloads (item, payload) SELECT ?2, payload FROM payloads WHERE item = ?1
