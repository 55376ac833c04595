-- The ended runs of an item, first one first.
SELECT * FROM interlock.runs WHERE item = %(item)s ORDER BY run
