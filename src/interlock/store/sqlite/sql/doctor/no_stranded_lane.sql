-- Every lane with queued items has an owner.
-- mend: interlock sweep --once
SELECT DISTINCT 'lane ' || d.lane FROM items d
WHERE d.status = 'deferred'
    AND NOT EXISTS (SELECT 1 FROM items o WHERE o.lane = d.lane AND o.status IN ('pending', 'in_progress'))
    AND NOT EXISTS (SELECT 1 FROM items o WHERE o.observed_lane = d.lane AND o.status IN ('pending', 'in_progress'))
