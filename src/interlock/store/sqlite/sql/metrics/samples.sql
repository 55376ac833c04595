-- The samples from a minute on, the oldest first.
SELECT * FROM trend WHERE minute >= :minute ORDER BY minute
