-- The arrival of the oldest ready item. The limit without effect keeps the planner on the index: without statistics it would sort.
SELECT created_us FROM (
    SELECT created_us, due_us FROM interlock.items WHERE status = 'pending' ORDER BY -id DESC LIMIT (SELECT 9223372036854775807)
) AS pending
WHERE due_us IS NULL LIMIT 1
