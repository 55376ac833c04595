-- Enqueue an effect, once by its name. One that is rendered when sent is enqueued once while unsent.
INSERT INTO github_effects (repository, number, place, name, kind, thing, data, run, owed_us)
SELECT :repository, :number, :place, :name, :kind, :thing, :data, :run, :now_us
WHERE :kind NOT IN ('progress', 'lane') OR NOT EXISTS (
    SELECT 1 FROM github_effects AS e INDEXED BY github_effects_thing WHERE e.repository = :repository AND e.number = :number AND e.thing = :thing
        AND e.thing <> '' AND e.sent_us IS NULL AND e.done_us IS NULL AND e.dead_us IS NULL)
ON CONFLICT DO NOTHING RETURNING name
