-- Create lanes before an item names them, in a fixed order: two processes that create the same ones wait for each other. The planner
-- may look for missing lanes by a hash, whose order is another one.
INSERT INTO interlock.lanes (lane)
SELECT lane FROM unnest((SELECT %(lanes)s::text[])) AS new(lane)
WHERE NOT EXISTS (SELECT 1 FROM interlock.lanes l WHERE l.lane = new.lane)
ORDER BY lane ON CONFLICT DO NOTHING
