-- Every mode that was set.
SELECT scope, value, mode FROM interlock.modes ORDER BY scope, value
