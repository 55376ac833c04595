-- What the store knows about itself under a name.
SELECT value FROM interlock.meta WHERE name = %(name)s
