-- The existing ones of the named items.
SELECT * FROM items WHERE id IN (SELECT value FROM json_each(:items))
