-- Writes what is there already: fails where nothing can be written.
UPDATE interlock.meta SET value = value WHERE name = (SELECT min(name) FROM interlock.meta)
