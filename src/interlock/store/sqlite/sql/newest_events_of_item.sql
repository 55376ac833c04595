-- The last events of one item, newest first, up to the horizon.
SELECT * FROM events
WHERE item = :item AND seq > :after AND seq < :horizon AND (:lane IS NULL OR lane = :lane)
    AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
    AND (:agent IS NULL OR agent = :agent OR lower(agent) = :agent_key) AND (:run IS NULL OR run = :run)
ORDER BY seq DESC LIMIT :limit
