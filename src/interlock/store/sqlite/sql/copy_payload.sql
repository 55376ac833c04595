-- A follow-up works on what its parent worked on.
INSERT INTO payloads (item, payload) SELECT ?2, payload FROM payloads WHERE item = ?1
