-- The named items, as far as they are there.
SELECT * FROM items WHERE id IN (SELECT value FROM json_each(:items))
