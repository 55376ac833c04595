-- Plans, the newest first; ended ones only when they are asked for.
SELECT * FROM interlock.plans WHERE %(ended)s::boolean OR ended_us IS NULL ORDER BY id DESC LIMIT %(limit)s
