-- The tasks of a plan in order of arrival, with all columns of their items; removed ones only with :removed.
SELECT t.*, i.* FROM tasks t INDEXED BY tasks_plan CROSS JOIN items i ON i.id = t.item
WHERE t.plan = :plan AND (:removed OR t.removed_revision IS NULL) ORDER BY t.item
