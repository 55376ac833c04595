-- How many events some items have.
SELECT count(*) FROM interlock.events WHERE item = ANY(%(items)s::bigint[])
