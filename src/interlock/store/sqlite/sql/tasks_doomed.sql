-- Tasks of a plan that can never start unless its editor changes the graph.
SELECT * FROM tasks WHERE plan = :plan AND doomed = 1
