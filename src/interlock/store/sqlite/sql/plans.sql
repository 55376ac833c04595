-- Plans, the newest first; ended ones only when they are asked for.
SELECT * FROM plans WHERE :ended OR ended_us IS NULL ORDER BY id DESC LIMIT :limit
