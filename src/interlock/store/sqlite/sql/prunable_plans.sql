-- Of the next plans behind `after`, those that ended before a time and have no dead letter; and the last that was looked at.
WITH looked AS MATERIALIZED (SELECT id, ended_us FROM plans WHERE id > :after ORDER BY id LIMIT :limit)
SELECT (SELECT max(id) FROM looked), id FROM (SELECT 1) LEFT JOIN looked ON ended_us < :before_us
    AND NOT EXISTS (SELECT 1 FROM items i WHERE i.plan = looked.id AND (i.status = 'failed' OR i.ended_us IS NULL))
