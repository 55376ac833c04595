-- One item.
SELECT * FROM interlock.items WHERE id = %(item)s
