-- Who ran each of these lanes last, as decided. The lanes are locked already.
UPDATE interlock.lanes AS l SET last_agent = new.agent
FROM unnest((SELECT %s::text[]), %s::text[]) AS new(lane, agent) WHERE l.lane = new.lane
