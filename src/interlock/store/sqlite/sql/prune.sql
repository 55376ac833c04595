-- Rows of a table go, by a column that names what they belong to. SQLite is told that few do: after ANALYZE it would read the whole table
-- if nearly all rows belong to one thing.
DELETE FROM {table} WHERE unlikely({column} IN (SELECT value FROM json_each(:gone)))
