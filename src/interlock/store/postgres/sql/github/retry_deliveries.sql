-- Make some deliveries that wait for a person due again.
UPDATE interlock.github_deliveries SET due_us = coalesce(%(now_us)s, interlock.clock_us()), tries = 0
WHERE interlock.expect({schema}) AND id = ANY(ARRAY(
    SELECT id FROM interlock.github_deliveries WHERE body IS NOT NULL AND due_us IS NULL ORDER BY received_us LIMIT %(limit)s)) RETURNING id
