-- The time of the first event at or after a number, to find where a window begins.
SELECT seq, at_us FROM events WHERE seq >= :seq ORDER BY seq LIMIT 1
