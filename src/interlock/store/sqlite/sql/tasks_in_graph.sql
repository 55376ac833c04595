-- Every task in a plan's graph.
SELECT * FROM tasks WHERE plan = :plan AND removed_revision IS NULL
