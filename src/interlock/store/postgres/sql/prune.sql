-- Rows of a table go, by a column that names what they belong to. The list is hidden from the planner, as in count_events;
-- it expects little of a range, and reads by the index even if nearly all rows belong to one thing.
DELETE FROM interlock.{table} WHERE {column} = ANY((SELECT %(gone)s::bigint[])::bigint[])
    AND {column} BETWEEN (SELECT min(n) FROM unnest(%(gone)s::bigint[]) AS n) AND (SELECT max(n) FROM unnest(%(gone)s::bigint[]) AS n)
