-- One item as it stands.
SELECT * FROM interlock.items WHERE id = %(item)s
