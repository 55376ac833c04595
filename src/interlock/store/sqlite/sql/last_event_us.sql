-- The time of the newest event; null if there is no event.
SELECT max(at_us) FROM (SELECT at_us FROM events ORDER BY seq DESC LIMIT 1)
