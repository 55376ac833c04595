-- One item as it is now.
SELECT * FROM interlock.items WHERE id = %(item)s
