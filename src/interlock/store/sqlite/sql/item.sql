-- One item.
SELECT * FROM items WHERE id = :item
