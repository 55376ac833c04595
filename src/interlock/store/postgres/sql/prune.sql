-- Rows of a table go, by a column that names what they belong to. The list is hidden from the planner, as in count_events.
DELETE FROM interlock.{table} WHERE {column} = ANY((SELECT %(gone)s::bigint[])::bigint[])
