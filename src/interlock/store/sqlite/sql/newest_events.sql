-- The last lines of history, last one first.
SELECT * FROM events
WHERE seq > :after AND (:item IS NULL OR item = :item) AND (:lane IS NULL OR lane = :lane)
ORDER BY seq DESC LIMIT :limit
