-- Assign the key of a refused arrival to the item that brought it again.
UPDATE dedupe_keys SET item = ?3 WHERE project = ?1 AND key = ?2
