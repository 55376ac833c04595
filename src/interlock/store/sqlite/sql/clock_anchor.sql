-- What the store's clock adds to the time since boot; null before its first use.
SELECT value FROM meta WHERE name = 'clock_anchor'
