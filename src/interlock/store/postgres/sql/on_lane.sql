-- The unfinished items of a lane: its owner, items that started while the lane was only observed, the first of its line, and items
-- that wait for a time or for tasks. The last are found among all items that wait so.
(SELECT * FROM interlock.items WHERE lane = %(lane)s AND status IN ('pending', 'in_progress') AND lane IS NOT NULL)
UNION ALL
(SELECT * FROM interlock.items
WHERE observed_lane = %(lane)s AND status IN ('pending', 'in_progress') AND observed_lane IS NOT NULL ORDER BY id LIMIT %(limit)s)
UNION ALL
(SELECT * FROM interlock.items WHERE status = 'deferred' AND lane = %(lane)s ORDER BY lane, front DESC, position, ticket, id LIMIT %(limit)s)
UNION ALL
(SELECT * FROM interlock.items WHERE status = 'waiting' AND (lane = %(lane)s OR observed_lane = %(lane)s) LIMIT %(limit)s)
