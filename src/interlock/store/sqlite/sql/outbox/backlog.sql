-- The number of unsent effects and since when they are due, and the number that wait for a person; each counted up to a limit.
SELECT (SELECT count(*) FROM (SELECT 1 FROM github_effects INDEXED BY github_effects_owed WHERE done_us IS NULL AND dead_us IS NULL LIMIT :limit)),
    (SELECT min(due_us) FROM github_outboxes WHERE due_us IS NOT NULL),
    (SELECT count(*) FROM (SELECT 1 FROM github_effects WHERE dead_us IS NOT NULL LIMIT :limit))
