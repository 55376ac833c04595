-- Events that match a filter between two numbers, in order, up to the horizon.
SELECT * FROM events
WHERE seq > :after AND seq < :horizon AND (:lane IS NULL OR lane = :lane)
    AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
    AND (:agent IS NULL OR agent = :agent OR lower(agent) = :agent_key) AND (:run IS NULL OR run = :run)
ORDER BY seq LIMIT :limit
