-- Where the store's clock was anchored, if it ever was.
SELECT value FROM meta WHERE name = 'clock_anchor'
