-- The items of some plans, each with its plan. The list is hidden from the planner, as in count_events.
SELECT plan, id FROM interlock.items WHERE plan = ANY((SELECT %(plans)s::bigint[])::bigint[])
