-- Delete a value of the store about itself.
DELETE FROM meta WHERE name = :name
