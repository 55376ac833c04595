-- The newest items without a known outcome of checks: without a link, or with a newest link without one. Read from the newest on,
-- at most `looked`, until there are enough.
SELECT i.* FROM (
    SELECT * FROM interlock.items WHERE id < %(before)s ORDER BY id DESC LIMIT (SELECT %(looked)s::integer)
) AS i
WHERE status = ANY(%(statuses)s::text[])
    AND (%(lane)s::text IS NULL OR lane = %(lane)s OR observed_lane = %(lane)s)
    AND (%(agent)s::text IS NULL OR agent_key = %(agent)s OR run_agent = %(agent)s)
    AND (%(project)s::text IS NULL OR project = %(project)s)
    AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
    AND (%(label)s::text IS NULL OR %(label)s = ANY(labels))
    AND (%(text)s::text IS NULL OR strpos(lower(title COLLATE "C"), %(text)s) > 0 OR strpos(lower(lane COLLATE "C"), %(text)s) > 0
        OR strpos(lower(observed_lane COLLATE "C"), %(text)s) > 0 OR strpos(agent_key, %(text)s) > 0 OR strpos(run_agent, %(text)s) > 0
        OR (SELECT 1 FROM interlock.dedupe_keys AS k WHERE k.item = i.id AND strpos(lower(k.key COLLATE "C"), %(text)s) > 0
            ORDER BY k.item LIMIT 1) IS NOT NULL)
    AND (SELECT h.ci_outcome FROM (
            SELECT * FROM interlock.github_links WHERE github_links.item = i.id
            ORDER BY number DESC, run DESC, linked_us DESC, commit_id DESC LIMIT 1
        ) AS l CROSS JOIN LATERAL (
            SELECT ci_outcome FROM interlock.github_heads AS head
            WHERE head.repository = l.repository AND head.number = l.number AND head.commit_id = l.commit_id OFFSET 0
        ) AS h) IS NULL
ORDER BY i.id DESC LIMIT (SELECT %(limit)s::integer)
