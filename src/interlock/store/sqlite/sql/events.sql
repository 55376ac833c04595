-- History after a number, in order, up to the horizon, so that nothing is skipped.
SELECT * FROM events
WHERE seq > :after AND seq < :horizon AND (:lane IS NULL OR lane = :lane)
ORDER BY seq LIMIT :limit
