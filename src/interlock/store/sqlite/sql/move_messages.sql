-- Move messages to another item. They keep their order and their origin.
UPDATE messages SET item = ?2, n = n + ?4 WHERE item = ?1 AND n > ?3
