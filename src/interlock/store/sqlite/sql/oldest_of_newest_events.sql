-- The times of the event that so many newer ones follow, from a number on, and of the one before it.
SELECT at_us FROM events WHERE seq >= :seq ORDER BY seq DESC LIMIT 2 OFFSET :others
