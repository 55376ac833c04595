-- At most one active item holds a lane.
-- mend: This must not happen; stop all workers, keep a copy of the database, cancel all but one of the items, report it.
SELECT 'lane ' || lane || ' has items ' || group_concat(id, ', ') FROM items
WHERE status IN ('pending', 'in_progress') AND lane IS NOT NULL GROUP BY lane HAVING count(*) > 1
