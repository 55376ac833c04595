-- Set the gates of lanes, as decided. Exempt types come as one text each, joined by spaces. The lanes are already locked.
UPDATE interlock.lanes AS l SET gate_series = new.series, gate_open = new.open,
    gate_exempt = string_to_array(new.exempt, ' '), gate_us = new.at_us
FROM unnest((SELECT %s::text[]), %s::text[], %s::boolean[], %s::text[], %s::bigint[]) AS new(lane, series, open, exempt, at_us)
WHERE l.lane = new.lane
