-- A value of the store about itself; null if there is none.
SELECT value FROM meta WHERE name = :name
