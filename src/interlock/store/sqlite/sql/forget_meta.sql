-- The store no longer knows this about itself.
DELETE FROM meta WHERE name = :name
