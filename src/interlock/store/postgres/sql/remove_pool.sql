-- Delete a pool that no agent shares. Gives it if deleted. An earlier statement has locked its row.
DELETE FROM interlock.pools WHERE name = %(pool)s
    AND NOT EXISTS (SELECT FROM interlock.agents WHERE pool = %(pool)s)
RETURNING name
