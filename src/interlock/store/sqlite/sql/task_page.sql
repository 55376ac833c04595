-- Tasks of a plan with some statuses after an item, in order of arrival, with all columns of their items.
SELECT t.*, i.* FROM tasks t CROSS JOIN items i ON i.id = t.item
WHERE t.plan = :plan AND t.item > :after AND t.removed_revision IS NULL AND i.status IN (SELECT value FROM json_each(:statuses))
ORDER BY t.item LIMIT :limit
