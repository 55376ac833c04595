-- What the store knows about itself under a name; null if nothing.
SELECT value FROM meta WHERE name = :name
