-- The columns of a table, in order.
SELECT name FROM pragma_table_info(:table) ORDER BY cid
