-- An effect is owed once by its name.
INSERT INTO github_effects (repository, number, place, name, kind, thing, data, run, owed_us, after_us)
VALUES (:repository, :number, :place, :name, :kind, :thing, :data, :run, :now_us, :now_us + :after_us) ON CONFLICT DO NOTHING RETURNING name
