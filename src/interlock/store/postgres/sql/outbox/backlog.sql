-- The number of unsent effects and since when they are due, and the number that wait for a person; each counted up to a limit.
-- With the order of an index, PostgreSQL reads only that index, whatever the statistics are.
SELECT (SELECT count(*) FROM (
        SELECT FROM interlock.github_effects WHERE done_us IS NULL AND dead_us IS NULL ORDER BY repository, number, place LIMIT %(limit)s) AS owed),
    (SELECT min(due_us) FROM interlock.github_outboxes WHERE due_us IS NOT NULL),
    (SELECT count(*) FROM (SELECT FROM interlock.github_effects WHERE dead_us IS NOT NULL ORDER BY dead_us LIMIT %(limit)s) AS dead)
