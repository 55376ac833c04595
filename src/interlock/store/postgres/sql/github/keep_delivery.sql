-- A delivery is kept once, however often it comes.
INSERT INTO interlock.github_deliveries (id, event, repository, number, received_us, due_us, body)
SELECT %(id)s, %(event)s, %(repository)s, %(number)s, now_us, now_us, %(body)s
FROM (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock WHERE interlock.expect({schema})
ON CONFLICT DO NOTHING RETURNING id
