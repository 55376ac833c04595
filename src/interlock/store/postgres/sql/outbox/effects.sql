-- The effects of a number, the newest first.
SELECT repository, number, name, kind, run, owed_us, tries, made, done_us, dead_us, outcome FROM interlock.github_effects
WHERE repository = %(repository)s AND number = %(number)s ORDER BY place DESC LIMIT %(limit)s
