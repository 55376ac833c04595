-- Lanes that have a line but nobody to lead it.
SELECT DISTINCT d.lane FROM items d
WHERE d.status = 'deferred' AND NOT EXISTS (
    SELECT 1 FROM items o WHERE o.lane = d.lane AND o.status IN ('pending', 'in_progress') AND o.lane IS NOT NULL
) AND NOT EXISTS (
    SELECT 1 FROM items o WHERE o.observed_lane = d.lane AND o.status IN ('pending', 'in_progress')
        AND o.observed_lane IS NOT NULL
)
LIMIT :limit
