-- The last events of one item, newest first, up to the horizon.
SELECT * FROM interlock.events
WHERE item = %(item)s AND seq > %(after)s AND seq < %(horizon)s AND (%(lane)s::text IS NULL OR lane = %(lane)s)
    AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
    AND (%(agent)s::text IS NULL OR agent = %(agent)s OR lower(agent) = %(agent_key)s) AND (%(run)s::bigint IS NULL OR run = %(run)s)
ORDER BY seq DESC LIMIT %(limit)s
