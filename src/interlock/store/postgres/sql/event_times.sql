-- The time of the first event at or after a number, to find where a window begins.
SELECT seq, at_us FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq LIMIT 1
