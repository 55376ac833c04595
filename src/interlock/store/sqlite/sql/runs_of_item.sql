-- The ended runs of an item, first one first.
SELECT * FROM runs WHERE item = ? ORDER BY run
