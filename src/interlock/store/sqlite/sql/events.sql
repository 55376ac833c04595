-- History after a number, in order. The branch for one item uses its index.
SELECT * FROM events WHERE :item IS NULL AND seq > :after AND (:lane IS NULL OR lane = :lane)
UNION ALL
SELECT * FROM events WHERE item = :item AND seq > :after AND (:lane IS NULL OR lane = :lane)
ORDER BY seq LIMIT :limit
