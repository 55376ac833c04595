-- The lanes to lock for each of the named items: its own, and the one that guards its plan.
SELECT coalesce(lane, observed_lane) FROM items
WHERE id IN (SELECT value FROM json_each(:items)) AND coalesce(lane, observed_lane) IS NOT NULL
UNION ALL
SELECT 'plan:' || plan FROM items WHERE id IN (SELECT value FROM json_each(:items)) AND plan IS NOT NULL
