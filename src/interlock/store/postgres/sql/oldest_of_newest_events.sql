-- The times of the event that so many newer ones follow, from a number on, and of the one before it.
SELECT at_us FROM interlock.events WHERE seq >= %(seq)s ORDER BY seq DESC LIMIT 2 OFFSET (SELECT %(others)s::integer)
