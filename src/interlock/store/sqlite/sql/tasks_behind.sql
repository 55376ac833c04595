-- Waiting tasks without a lane that can never start if the named ones cannot, nearest first.
WITH RECURSIVE behind(item) AS (
    SELECT value FROM json_each(:items)
    UNION
    SELECT e.target FROM behind JOIN edges e ON e.source = behind.item AND e.on_cancel = 'block'
        JOIN items i ON i.id = e.target
    WHERE i.status = 'waiting' AND i.lane IS NULL AND i.first_claimed_us IS NULL
    LIMIT :limit
)
SELECT t.* FROM behind JOIN tasks t ON t.item = behind.item
