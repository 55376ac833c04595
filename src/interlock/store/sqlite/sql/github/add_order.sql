-- Write an order, once by its name.
INSERT INTO github_consequences (repository, number, place, name, data, due_us)
VALUES (:repository, :number, :place, :name, :data, :now_us) ON CONFLICT DO NOTHING RETURNING name
