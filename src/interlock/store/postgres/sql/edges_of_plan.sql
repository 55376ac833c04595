-- The edges of a plan.
SELECT * FROM interlock.edges WHERE plan = %(plan)s ORDER BY source, target
