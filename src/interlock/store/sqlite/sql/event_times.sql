-- The time of the first event at or after a number, for finding where a window begins.
SELECT seq, at_us FROM events WHERE seq >= ? ORDER BY seq LIMIT 1
