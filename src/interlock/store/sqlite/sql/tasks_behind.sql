-- Tasks that end with those named if these can never start, nearest first, up to a limit: they wait, on no lane.
WITH RECURSIVE behind(item) AS (
    SELECT value FROM json_each(:items)
    UNION
    SELECT e.target FROM behind JOIN edges e ON e.source = behind.item AND e.on_cancel = 'block'
        JOIN items i ON i.id = e.target
    WHERE i.status = 'waiting' AND i.lane IS NULL AND i.first_claimed_us IS NULL
    LIMIT :limit
)
SELECT t.* FROM behind JOIN tasks t ON t.item = behind.item
