-- The first effect of a number to send now, the end of the run that it reports on, and the last id of its thing with the outcome of that effect.
SELECT e.place, r.name, e.name, e.kind, e.thing, e.data, e.run, (SELECT status FROM interlock.runs WHERE run = e.run), e.owed_us, e.tries, e.sent_us, (
    SELECT last.made FROM interlock.github_effects AS last
    WHERE last.repository = e.repository AND last.number = e.number AND last.thing = e.thing AND last.thing <> '' AND e.thing <> ''
        AND last.place < e.place AND last.done_us IS NOT NULL ORDER BY last.place DESC LIMIT 1), (
    SELECT last.outcome FROM interlock.github_effects AS last
    WHERE last.repository = e.repository AND last.number = e.number AND last.thing = e.thing AND last.thing <> '' AND e.thing <> ''
        AND last.place < e.place AND last.done_us IS NOT NULL ORDER BY last.place DESC LIMIT 1)
FROM interlock.github_effects AS e JOIN interlock.github_repositories AS r ON r.id = e.repository
WHERE e.repository = %(repository)s AND e.number = %(number)s AND e.done_us IS NULL AND e.dead_us IS NULL
ORDER BY e.place LIMIT 1
