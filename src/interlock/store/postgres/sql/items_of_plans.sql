-- Every item of some plans, each with its plan.
SELECT plan, id FROM interlock.items WHERE plan = ANY(%(plans)s::bigint[])
