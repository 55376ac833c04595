-- New events get higher numbers than old ones, even after a restore into another cluster.
-- mend: interlock migrate --after-restore
SELECT 'event ' || max(seq) FROM interlock.events HAVING max(seq) >> 16 > (SELECT last_value FROM interlock.event_numbers)
