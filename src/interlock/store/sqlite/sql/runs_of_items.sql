-- The ended runs of some items.
SELECT run FROM runs WHERE item IN (SELECT value FROM json_each(:items)) ORDER BY run
