-- Lock a pool, before any agent, so that its agents' claims run one by one and its limit holds. The count is a later statement.
SELECT name FROM interlock.pools WHERE name = %(pool)s FOR NO KEY UPDATE
