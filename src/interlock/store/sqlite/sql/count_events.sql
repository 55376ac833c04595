-- How many events some items have.
SELECT count(*) FROM events WHERE item IN (SELECT value FROM json_each(:items))
