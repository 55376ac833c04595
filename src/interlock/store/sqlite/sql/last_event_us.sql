-- The time of the newest line of history; null where there is none.
SELECT max(at_us) FROM (SELECT at_us FROM events ORDER BY seq DESC LIMIT 1)
