-- Store a delivery once, even if it is redelivered; again if it was invalid and comes with another payload.
INSERT INTO interlock.github_deliveries (id, event, repository, number, received_us, due_us, body)
SELECT %(id)s, %(event)s, %(repository)s, %(number)s, now_us, now_us, %(body)s
FROM (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock WHERE interlock.expect({schema})
ON CONFLICT (id) DO UPDATE
SET event = excluded.event, repository = excluded.repository, number = excluded.number, body = excluded.body, due_us = excluded.due_us, tries = 0, outcome = NULL
WHERE (github_deliveries.repository IS NULL AND excluded.repository IS NOT NULL)
    OR (github_deliveries.body IS NOT NULL AND github_deliveries.outcome IS NOT NULL
        AND (github_deliveries.body <> excluded.body OR github_deliveries.event <> excluded.event))
RETURNING id
