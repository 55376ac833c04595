-- The lane that each of the named items stands on. An item never changes its lane.
SELECT coalesce(lane, observed_lane) FROM interlock.items
WHERE id = ANY(%(items)s::bigint[]) AND coalesce(lane, observed_lane) IS NOT NULL
