-- The last events, newest first, up to the horizon.
SELECT * FROM interlock.events
WHERE seq > %(after)s AND seq < %(horizon)s AND (%(lane)s::text IS NULL OR lane = %(lane)s)
ORDER BY seq DESC LIMIT %(limit)s
