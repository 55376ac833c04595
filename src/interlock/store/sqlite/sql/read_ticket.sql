-- The highest ticket of any committed arrival; a later arrival takes a higher one.
SELECT value FROM counters WHERE name = 'ticket'
