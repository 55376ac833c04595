-- History after a number, in order, up to the horizon, so that nothing is skipped.
SELECT * FROM interlock.events
WHERE seq > %(after)s AND seq < %(horizon)s AND (%(lane)s::text IS NULL OR lane = %(lane)s)
ORDER BY seq LIMIT %(limit)s
