-- The highest ticket any committed arrival had; a later arrival takes a higher one.
SELECT value FROM counters WHERE name = 'ticket'
