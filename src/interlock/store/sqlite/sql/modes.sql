-- Every mode that was set.
SELECT scope, value, mode FROM modes ORDER BY scope, value
