-- Plans, the newest first; ended ones only if :ended asks for them.
SELECT * FROM plans WHERE :ended
UNION ALL
SELECT * FROM plans WHERE NOT :ended AND ended_us IS NULL
ORDER BY id DESC LIMIT :limit
