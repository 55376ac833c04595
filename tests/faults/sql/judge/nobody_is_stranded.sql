-- A line has somebody in front of it: an owner, or an observed item that still has to end.
SELECT d.lane, min(d.id) FROM items d
WHERE d.status = 'deferred'
    AND NOT EXISTS (SELECT FROM items o WHERE o.lane = d.lane AND o.status IN ('pending', 'in_progress'))
    AND NOT EXISTS (SELECT FROM items o WHERE o.observed_lane = d.lane AND o.status IN ('pending', 'in_progress'))
GROUP BY d.lane
