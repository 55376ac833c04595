-- Rows of a table go, by a column that names what they belong to.
DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(:gone))
