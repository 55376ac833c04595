-- Effects that wait for a person, the oldest first.
SELECT repository, number, name, kind, run, owed_us, tries, made, done_us, dead_us, outcome FROM github_effects
WHERE dead_us IS NOT NULL ORDER BY dead_us LIMIT :limit
