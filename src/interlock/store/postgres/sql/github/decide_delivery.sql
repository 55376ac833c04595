-- A delivery that was decided on keeps its id, and what came of it.
UPDATE interlock.github_deliveries SET due_us = NULL, body = NULL, outcome = %(outcome)s
WHERE interlock.expect({schema}) AND id = %(id)s AND body IS NOT NULL
