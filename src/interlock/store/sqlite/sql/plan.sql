-- One plan.
SELECT * FROM plans WHERE id = :plan
