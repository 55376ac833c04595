-- Tasks in a plan's graph, by key.
SELECT * FROM tasks WHERE plan = :plan AND removed_revision IS NULL AND key IN (SELECT value FROM json_each(:keys))
