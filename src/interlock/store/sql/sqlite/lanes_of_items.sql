-- The lane that each of the named items stands on.
SELECT coalesce(lane, observed_lane) FROM items
WHERE id IN (SELECT value FROM json_each(:items)) AND coalesce(lane, observed_lane) IS NOT NULL
