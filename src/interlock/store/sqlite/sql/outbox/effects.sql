-- The effects of a number, the newest first.
SELECT repository, number, name, kind, run, owed_us, tries, made, done_us, dead_us, outcome FROM github_effects
WHERE repository = :repository AND number = :number ORDER BY place DESC LIMIT :limit
