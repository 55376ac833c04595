-- Delete rows of a table by the column of their owner. SQLite is told that few match: after ANALYZE it would read the whole table if
-- nearly all rows belong to one owner.
DELETE FROM {table} WHERE unlikely({column} IN (SELECT value FROM json_each(:gone)))
