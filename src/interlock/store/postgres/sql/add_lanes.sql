-- Create lanes before an item names them.
INSERT INTO interlock.lanes (lane)
SELECT lane FROM unnest((SELECT %(lanes)s::text[])) AS new(lane)
WHERE NOT EXISTS (SELECT 1 FROM interlock.lanes l WHERE l.lane = new.lane)
ON CONFLICT DO NOTHING
