-- An effect is owed once by its name.
INSERT INTO interlock.github_effects (repository, number, place, name, kind, thing, data, run, owed_us, after_us)
SELECT %(repository)s, %(number)s, %(place)s, %(name)s, %(kind)s, %(thing)s, %(data)s, %(run)s, now_us, now_us + %(after_us)s
FROM (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock ON CONFLICT DO NOTHING RETURNING name
