-- Write an existing value again: fails where nothing can be written.
UPDATE interlock.meta SET value = value WHERE name = (SELECT min(name) FROM interlock.meta)
