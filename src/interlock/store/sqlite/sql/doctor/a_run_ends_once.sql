-- No live run is also recorded as ended.
-- mend: interlock release --item ITEM --reason "doctor", then report it.
SELECT 'item ' || i.id || ', run ' || i.run FROM items i JOIN runs r ON r.run = i.run WHERE i.status = 'in_progress'
