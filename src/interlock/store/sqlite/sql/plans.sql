-- Plans before one, the newest first; ended ones only with :ended.
SELECT * FROM plans WHERE :ended AND id < :before
UNION ALL
SELECT * FROM plans WHERE NOT :ended AND ended_us IS NULL AND id < :before
ORDER BY id DESC LIMIT :limit
