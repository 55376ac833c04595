-- A delivery is kept once, however often it comes; again if it could not be understood, and comes with something else.
INSERT INTO github_deliveries (id, event, repository, number, received_us, due_us, body)
VALUES (:id, :event, :repository, :number, :now_us, :now_us, :body) ON CONFLICT DO UPDATE
SET event = excluded.event, repository = excluded.repository, number = excluded.number, body = excluded.body, due_us = excluded.due_us, tries = 0, outcome = NULL
WHERE (repository IS NULL AND excluded.repository IS NOT NULL)
    OR (body IS NOT NULL AND outcome IS NOT NULL AND (body <> excluded.body OR event <> excluded.event))
RETURNING id
