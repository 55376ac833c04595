-- Tasks of a plan that can never start unless its editor changes the graph.
SELECT * FROM interlock.tasks WHERE plan = %(plan)s AND doomed
