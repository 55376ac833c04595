-- Set the agent of the last run on lanes, as decided. The lanes are already locked.
UPDATE interlock.lanes AS l SET last_agent = new.agent
FROM unnest((SELECT %s::text[]), %s::text[]) AS new(lane, agent) WHERE l.lane = new.lane
