-- What runs hold back, by type.
SELECT type, micro_usd FROM reserves ORDER BY type LIMIT :limit
