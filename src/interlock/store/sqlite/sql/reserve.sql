-- The next :count numbers are taken, up to the one returned, and never given out again.
UPDATE numbers SET value = value + :count WHERE name = :name RETURNING value
