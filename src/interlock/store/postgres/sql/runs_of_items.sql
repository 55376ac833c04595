-- The ended runs of some items. The list is hidden from the planner, as in count_events.
SELECT run FROM interlock.runs WHERE item = ANY((SELECT %(items)s::bigint[])::bigint[]) ORDER BY run
