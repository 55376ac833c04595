-- Plans before one that match a filter, the newest first. The filter is applied to a limited number of plans.
SELECT * FROM (
    SELECT * FROM plans WHERE :ended AND id < :before
    UNION ALL
    SELECT * FROM plans WHERE NOT :ended AND ended_us IS NULL AND id < :before
    ORDER BY id DESC LIMIT :looked
) AS newest
WHERE status IN (SELECT value FROM json_each(:statuses))
    AND (:project IS NULL OR project = :project)
    AND (:editor IS NULL OR editor = :editor)
ORDER BY id DESC LIMIT :limit
