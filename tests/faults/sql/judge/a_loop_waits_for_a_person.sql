-- What was stopped on a lane is there only as long as no person has spoken since: then the lane counts from zero, and it goes on.
SELECT i.id, i.lane FROM items i JOIN lanes l ON l.lane = i.lane
WHERE i.status = 'waiting' AND i.reason = 'loop' AND l.streak = 0
