-- One plan.
SELECT * FROM interlock.plans WHERE id = %(plan)s
