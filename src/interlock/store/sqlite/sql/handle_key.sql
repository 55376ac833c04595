-- The secret that makes handles unguessable.
SELECT value FROM meta WHERE name = 'handle_key'
