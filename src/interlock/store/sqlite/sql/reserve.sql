-- The next :count numbers are taken, up to the one returned, and never given out again.
UPDATE counters SET value = value + :count WHERE name = :name RETURNING value
