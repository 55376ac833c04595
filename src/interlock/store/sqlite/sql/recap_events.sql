-- Starts and ends of runs and ends of items among the newest events from a number on, the newest first.
SELECT seq, at_us, kind, reason, item, run, agent, span_us, json_extract(data, '$.item_status'), json_extract(data, '$.by_item')
FROM (
    SELECT seq, at_us, kind, reason, item, run, agent, span_us, data FROM events WHERE seq >= :seq ORDER BY seq DESC LIMIT :limit
) AS newest
WHERE item IS NOT NULL AND kind IN (SELECT value FROM json_each(:kinds))
ORDER BY seq DESC
