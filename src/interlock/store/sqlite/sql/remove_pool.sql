-- Forget a pool that no agent shares; gives it if it is gone.
DELETE FROM pools WHERE name = :name AND NOT EXISTS (SELECT 1 FROM agents WHERE pool = :name) RETURNING name
