-- Enqueue an effect, once by its name. One that is rendered when sent is enqueued once while unsent.
INSERT INTO interlock.github_effects (repository, number, place, name, kind, thing, data, run, owed_us)
SELECT %(repository)s, %(number)s, %(place)s, %(name)s, %(kind)s, %(thing)s, %(data)s, %(run)s, coalesce(%(now_us)s, interlock.clock_us())
WHERE %(kind)s NOT IN ('progress', 'lane') OR NOT EXISTS (
    SELECT FROM interlock.github_effects AS e WHERE e.repository = %(repository)s AND e.number = %(number)s AND e.thing = %(thing)s
        AND e.thing <> '' AND e.sent_us IS NULL AND e.done_us IS NULL AND e.dead_us IS NULL)
ON CONFLICT DO NOTHING RETURNING name
