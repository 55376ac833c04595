-- Effects that wait for a person, the oldest first, in full.
SELECT r.name, e.repository, e.number, e.place, e.name, e.kind, e.data, e.run, e.owed_us, e.tries, e.sent_us, e.done_us, e.dead_us, e.outcome, NULL
FROM interlock.github_effects AS e JOIN interlock.github_repositories AS r ON r.id = e.repository
WHERE e.dead_us IS NOT NULL ORDER BY e.dead_us LIMIT %(limit)s
