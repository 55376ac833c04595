-- Delete rows of a table by the column of their owner. The list is hidden from the planner, as in count_events. It expects few rows
-- of a range, and reads by the index even if nearly all rows belong to one owner.
DELETE FROM interlock.{table} WHERE {column} = ANY((SELECT %(gone)s::bigint[])::bigint[])
    AND {column} BETWEEN (SELECT min(n) FROM unnest(%(gone)s::bigint[]) AS n) AND (SELECT max(n) FROM unnest(%(gone)s::bigint[]) AS n)
