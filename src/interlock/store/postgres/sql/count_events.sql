-- The number of events of some items. The list is hidden from the planner, which without statistics expects a long one to match much of the table.
SELECT count(*) FROM interlock.events WHERE item = ANY((SELECT %(items)s::bigint[])::bigint[])
