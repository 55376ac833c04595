-- Tasks by item.
SELECT * FROM tasks WHERE item IN (SELECT value FROM json_each(:items))
