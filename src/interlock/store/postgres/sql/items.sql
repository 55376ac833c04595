-- Items by what is asked, newest first: status by status, so that the others cost nothing. The limit that limits nothing
-- keeps the planner on the index: it would sort all items of a status where it expects few that fit.
SELECT i.* FROM unnest(%(statuses)s::text[]) AS s(status) CROSS JOIN LATERAL (
    SELECT * FROM (SELECT * FROM interlock.items WHERE items.status = s.status AND -id > -%(before)s::bigint ORDER BY -id
        LIMIT (SELECT 9223372036854775807)) AS newest
    WHERE (%(lane)s::text IS NULL OR lane = %(lane)s OR observed_lane = %(lane)s)
        AND (%(agent)s::text IS NULL OR agent_key = %(agent)s OR run_agent = %(agent)s)
        AND (%(project)s::text IS NULL OR project = %(project)s)
        AND (%(type)s::text IS NULL OR type = %(type)s)
    LIMIT (SELECT %(limit)s::integer)
) AS i
ORDER BY i.id DESC LIMIT (SELECT %(limit)s::integer)
