-- Claims of the agents of a pool go one by one, so that its limit holds; the count is a later statement. Locked before any agent.
SELECT name FROM interlock.pools WHERE name = %(pool)s FOR NO KEY UPDATE
