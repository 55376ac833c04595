-- A delivery is kept once, however often it comes.
INSERT INTO github_deliveries (id, event, repository, number, received_us, due_us, body)
VALUES (:id, :event, :repository, :number, :now_us, :now_us, :body) ON CONFLICT DO NOTHING RETURNING id
