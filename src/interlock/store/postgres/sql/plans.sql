-- Plans before one, the newest first; ended ones only on request.
SELECT * FROM interlock.plans WHERE (%(ended)s::boolean OR ended_us IS NULL) AND id < %(before)s::bigint ORDER BY id DESC LIMIT %(limit)s
