-- Delete a pool that no agent shares. Gives it if deleted.
DELETE FROM pools WHERE name = :pool AND NOT EXISTS (SELECT 1 FROM agents WHERE pool = :pool) RETURNING name
