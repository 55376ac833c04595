-- How many events some items have. The list is hidden from the planner, which without statistics takes a long one for much of the table.
SELECT count(*) FROM interlock.events WHERE item = ANY((SELECT %(items)s::bigint[])::bigint[])
