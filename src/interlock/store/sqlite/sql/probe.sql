-- Write an existing value again: fails where nothing can be written.
UPDATE meta SET value = value WHERE name = 'file'
