-- Set the wake-ups in a row of lanes, as decided. The lanes are already locked.
UPDATE interlock.lanes AS l SET streak = new.streak, streak_run = new.run
FROM unnest((SELECT %s::text[]), %s::integer[], %s::bigint[]) AS new(lane, streak, run) WHERE l.lane = new.lane
