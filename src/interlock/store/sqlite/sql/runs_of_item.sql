-- The ended runs of an item, in order.
SELECT * FROM runs WHERE item = :item ORDER BY run
