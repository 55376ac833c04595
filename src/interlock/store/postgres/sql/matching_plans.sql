-- Plans before one that match a filter, the newest first. The filter is applied to a limited number of plans.
SELECT * FROM (
    SELECT * FROM interlock.plans WHERE (%(ended)s::boolean OR ended_us IS NULL) AND id < %(before)s::bigint
    ORDER BY id DESC LIMIT %(looked)s
) AS newest
WHERE status = ANY (%(statuses)s::text[])
    AND (%(project)s::text IS NULL OR project = %(project)s)
    AND (%(editor)s::text IS NULL OR editor = %(editor)s)
ORDER BY id DESC LIMIT %(limit)s
