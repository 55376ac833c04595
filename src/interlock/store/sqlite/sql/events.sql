-- History after a number, in order.
SELECT * FROM events
WHERE seq > :after AND (:item IS NULL OR item = :item) AND (:lane IS NULL OR lane = :lane)
ORDER BY seq LIMIT :limit
