-- Forget a pool that no agent shares; gives it if it is gone. Its row is locked by an earlier statement.
DELETE FROM interlock.pools WHERE name = %(pool)s
    AND NOT EXISTS (SELECT FROM interlock.agents WHERE pool = %(pool)s)
RETURNING name
