-- Every edge at the named tasks.
SELECT * FROM edges WHERE source IN (SELECT value FROM json_each(:items))
UNION
SELECT * FROM edges WHERE target IN (SELECT value FROM json_each(:items))
