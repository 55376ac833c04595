-- What runs hold back, by type.
SELECT type, micro_usd FROM interlock.reserves ORDER BY type LIMIT %(limit)s
