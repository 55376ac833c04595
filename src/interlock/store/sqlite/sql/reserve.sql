-- Reserve the next :count numbers, up to the returned one. They are never given out again.
UPDATE numbers SET value = value + :count WHERE name = :name RETURNING value
