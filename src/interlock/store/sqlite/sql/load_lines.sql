-- How many items wait on each lane, and the explicit positions among them.
SELECT lane, count(*), json_group_array(position) FILTER (WHERE position < 2147483647)
FROM items WHERE status = 'deferred' AND lane IN (SELECT value FROM json_each(:lanes)) GROUP BY lane
