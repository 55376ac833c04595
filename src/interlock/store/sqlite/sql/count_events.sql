-- The number of events of some items.
SELECT count(*) FROM events WHERE item IN (SELECT value FROM json_each(:items))
