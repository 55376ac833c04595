-- Among the next plans after `after`, those that ended before a time and have no dead letter; and the last searched one, null if all
-- of these were created after the time, as then all later ones were too.
WITH looked AS MATERIALIZED (SELECT id, created_us, ended_us FROM plans WHERE id > :after ORDER BY id LIMIT :limit)
SELECT (SELECT max(id) FROM looked HAVING min(created_us) < :before_us), id FROM (SELECT 1) LEFT JOIN looked ON ended_us < :before_us
    AND NOT EXISTS (SELECT 1 FROM items i WHERE i.plan = looked.id AND (i.status = 'failed' OR i.ended_us IS NULL))
