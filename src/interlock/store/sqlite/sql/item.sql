-- One item as it stands.
SELECT * FROM items WHERE id = ?
