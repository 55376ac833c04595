-- Store a delivery once, even if it is redelivered; again if it was invalid and comes with another payload.
INSERT INTO github_deliveries (id, event, repository, number, received_us, due_us, body)
VALUES (:id, :event, :repository, :number, :now_us, :now_us, :body) ON CONFLICT DO UPDATE
SET event = excluded.event, repository = excluded.repository, number = excluded.number, body = excluded.body, due_us = excluded.due_us, tries = 0, outcome = NULL
WHERE (repository IS NULL AND excluded.repository IS NOT NULL)
    OR (body IS NOT NULL AND outcome IS NOT NULL AND (body <> excluded.body OR event <> excluded.event))
RETURNING id
