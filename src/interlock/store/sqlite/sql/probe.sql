-- Writes what is there already: fails where nothing can be written.
UPDATE meta SET value = value WHERE name = 'file'
