-- Numbers up to the one returned are taken and never given out again.
UPDATE counters SET value = value + :count WHERE name = :name RETURNING value
