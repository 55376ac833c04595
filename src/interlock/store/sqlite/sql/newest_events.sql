-- The last events, newest first, up to the horizon.
SELECT * FROM events
WHERE seq > :after AND seq < :horizon AND (:lane IS NULL OR lane = :lane)
ORDER BY seq DESC LIMIT :limit
