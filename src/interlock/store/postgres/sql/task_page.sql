-- Tasks of a plan with some statuses after an item, in order of arrival, with all columns of their items. The condition on removed
-- tasks keeps the index by keys out, which has no order of arrival.
SELECT t.*, i.*
FROM interlock.tasks t
CROSS JOIN LATERAL (SELECT * FROM interlock.items WHERE id = t.item AND status = ANY (%(statuses)s::text[]) OFFSET 0) i
WHERE t.plan = %(plan)s AND t.item > %(after)s::bigint AND (t.removed_revision > 0) IS NOT TRUE
ORDER BY t.item LIMIT %(limit)s
