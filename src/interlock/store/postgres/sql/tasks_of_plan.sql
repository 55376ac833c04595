-- The tasks of a plan in order of arrival, with all columns of their items; removed ones only on request. They are a range, as the runs
-- in presence.
SELECT t.*, i.* FROM interlock.tasks t JOIN interlock.items i ON i.id = t.item
WHERE t.plan BETWEEN %(plan)s AND %(plan)s AND (%(removed)s::boolean OR t.removed_revision IS NULL) ORDER BY t.item
