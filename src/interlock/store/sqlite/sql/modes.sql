-- Every set mode.
SELECT scope, value, mode FROM modes ORDER BY scope, value
