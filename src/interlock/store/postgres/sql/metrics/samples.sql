-- The samples from a minute on, the oldest first.
SELECT * FROM interlock.trend WHERE minute >= %(minute)s ORDER BY minute
