-- Tasks of a plan's graph by their keys.
SELECT * FROM interlock.tasks WHERE plan = %(plan)s AND removed_revision IS NULL AND key = ANY(%(keys)s::text[])
