-- The ended runs of an item, in order.
SELECT * FROM interlock.runs WHERE item = %(item)s ORDER BY run
