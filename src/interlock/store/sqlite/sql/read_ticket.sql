-- The highest ticket of any committed arrival; a later arrival takes a higher one.
SELECT value FROM numbers WHERE name = 'ticket'
