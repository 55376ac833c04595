-- The edges of a plan.
SELECT * FROM edges WHERE plan = :plan ORDER BY source, target
