-- Tasks by their items.
SELECT * FROM interlock.tasks WHERE item = ANY(%(items)s::bigint[])
