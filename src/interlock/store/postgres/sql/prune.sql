-- Rows of a table go, by a column that names what they belong to.
DELETE FROM interlock.{table} WHERE {column} = ANY(%(gone)s::bigint[])
