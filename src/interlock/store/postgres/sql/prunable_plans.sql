-- Among the next plans after `after`, those that ended before a time and have no dead letter; and the last searched one, null if all
-- of these were created after the time, as then all later ones were too.
-- The items of a plan are a range, as the runs in presence.
WITH looked AS MATERIALIZED (
    SELECT id, created_us, ended_us FROM interlock.plans WHERE id > %(after)s AND interlock.expect({schema}) ORDER BY id LIMIT %(limit)s
)
SELECT (SELECT max(id) FROM looked HAVING min(created_us) < %(before_us)s), id FROM (SELECT) AS one LEFT JOIN looked ON ended_us < %(before_us)s
    AND (SELECT true FROM interlock.items i WHERE i.plan BETWEEN looked.id AND looked.id AND i.plan IS NOT NULL
        AND (i.status = 'failed' OR i.ended_us IS NULL) ORDER BY i.plan LIMIT 1) IS NULL
