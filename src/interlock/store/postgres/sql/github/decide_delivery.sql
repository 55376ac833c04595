-- Record the decision on a delivery. Its id and outcome are kept.
UPDATE interlock.github_deliveries SET due_us = NULL, body = NULL, outcome = %(outcome)s
WHERE interlock.expect({schema}) AND id = %(id)s AND body IS NOT NULL
