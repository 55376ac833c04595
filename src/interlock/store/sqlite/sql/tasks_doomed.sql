-- Tasks of a plan that can never start as things are, and wait for what its editor does about it.
SELECT * FROM tasks WHERE plan = :plan AND doomed = 1
