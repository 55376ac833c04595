-- A value of the store about itself.
SELECT value FROM interlock.meta WHERE name = %(name)s
