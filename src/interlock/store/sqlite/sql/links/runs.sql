-- The items and lanes of runs, by number. Live runs are few, and are scanned.
SELECT r.run, r.item, i.lane FROM json_each(:runs) AS wanted JOIN runs r ON r.run = wanted.value JOIN items i ON i.id = r.item
UNION
SELECT run, id, lane FROM items WHERE run IS NOT NULL AND run IN (SELECT value FROM json_each(:runs))
