-- An effect is owed once by its name. What is made up when it is sent need not be owed twice before that.
INSERT INTO github_effects (repository, number, place, name, kind, thing, data, run, owed_us, after_us)
SELECT :repository, :number, :place, :name, :kind, :thing, :data, :run, :now_us, :now_us + :after_us
WHERE :kind NOT IN ('progress', 'lane') OR NOT EXISTS (
    SELECT 1 FROM github_effects AS e INDEXED BY github_effects_thing WHERE e.repository = :repository AND e.number = :number AND e.thing = :thing
        AND e.thing <> '' AND e.sent_us IS NULL AND e.done_us IS NULL AND e.dead_us IS NULL)
ON CONFLICT DO NOTHING RETURNING name
