-- The history of one item after a number, in order, up to the horizon.
SELECT * FROM interlock.events
WHERE item = %(item)s AND seq > %(after)s AND seq < %(horizon)s AND (%(lane)s::text IS NULL OR lane = %(lane)s)
ORDER BY seq LIMIT %(limit)s
