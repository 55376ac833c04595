-- Messages keep their order and their origin when they go to another item.
UPDATE messages SET item = ?2, n = n + ?4 WHERE item = ?1 AND n > ?3
