-- Every set mode.
SELECT scope, value, mode FROM interlock.modes ORDER BY scope, value
