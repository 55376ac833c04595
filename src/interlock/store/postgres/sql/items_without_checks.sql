-- The newest items of whose checks nothing is known: without a link, or whose newest link says nothing. Read from the newest on,
-- `looked` at most, until there are enough.
SELECT i.* FROM (
    SELECT * FROM interlock.items WHERE id < %(before)s ORDER BY id DESC LIMIT (SELECT %(looked)s::integer)
) AS i
WHERE status = ANY(%(statuses)s::text[])
    AND (%(lane)s::text IS NULL OR lane = %(lane)s OR observed_lane = %(lane)s)
    AND (%(agent)s::text IS NULL OR agent_key = %(agent)s OR run_agent = %(agent)s)
    AND (%(project)s::text IS NULL OR project = %(project)s)
    AND (%(type)s::text IS NULL OR type = %(type)s)
    AND (SELECT h.ci_outcome FROM (
            SELECT * FROM interlock.github_links WHERE github_links.item = i.id
            ORDER BY number DESC, run DESC, linked_us DESC, commit_id DESC LIMIT 1
        ) AS l CROSS JOIN LATERAL (
            SELECT ci_outcome FROM interlock.github_heads AS head
            WHERE head.repository = l.repository AND head.number = l.number AND head.commit_id = l.commit_id OFFSET 0
        ) AS h) IS NULL
ORDER BY i.id DESC LIMIT (SELECT %(limit)s::integer)
