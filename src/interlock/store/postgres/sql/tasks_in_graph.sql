-- Every task of a plan's graph.
SELECT * FROM interlock.tasks WHERE plan = %(plan)s AND removed_revision IS NULL
