-- Items by what is asked, newest first.
SELECT * FROM interlock.items
WHERE (%(statuses)s::text[] IS NULL OR status = ANY(%(statuses)s))
    AND (%(lane)s::text IS NULL OR lane = %(lane)s OR observed_lane = %(lane)s)
    AND (%(agent)s::text IS NULL OR agent_key = %(agent)s OR run_agent = %(agent)s)
    AND (%(project)s::text IS NULL OR project = %(project)s)
    AND (%(type)s::text IS NULL OR type = %(type)s)
ORDER BY id DESC LIMIT %(limit)s
