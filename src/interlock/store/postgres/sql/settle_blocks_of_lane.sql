-- Set the flag of a lane exactly while it is blocked.
UPDATE interlock.lanes AS l SET blocked = NOT blocked
WHERE lane = %(lane)s AND blocked <> EXISTS (SELECT FROM interlock.blocks b WHERE b.lane = l.lane AND b.item = 0)
