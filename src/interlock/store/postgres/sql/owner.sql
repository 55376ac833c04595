-- The active item that holds a lane, or the first observed one that keeps the lane from opening.
(SELECT * FROM interlock.items WHERE lane = %(lane)s AND status IN ('pending', 'in_progress') AND lane IS NOT NULL)
UNION ALL
(SELECT * FROM interlock.items
WHERE observed_lane = %(lane)s AND status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL ORDER BY id LIMIT 1)
LIMIT 1
