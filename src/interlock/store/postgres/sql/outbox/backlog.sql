-- How much is owed and since when it is due, and how much waits for a person; each counted up to a limit.
-- Whatever the statistics say, an order that an index has lets PostgreSQL read no more than that index.
SELECT (SELECT count(*) FROM (
        SELECT FROM interlock.github_effects WHERE done_us IS NULL AND dead_us IS NULL ORDER BY repository, number, place LIMIT %(limit)s) AS owed),
    (SELECT min(due_us) FROM interlock.github_outboxes WHERE due_us IS NOT NULL),
    (SELECT count(*) FROM (SELECT FROM interlock.github_effects WHERE dead_us IS NOT NULL ORDER BY dead_us LIMIT %(limit)s) AS dead)
