-- The columns of a table, in order, and their types.
SELECT column_name::text, data_type::text FROM information_schema.columns
WHERE table_schema = 'interlock' AND table_name = %(table)s ORDER BY ordinal_position
