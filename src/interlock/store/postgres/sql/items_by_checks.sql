-- The newest items whose newest link has this outcome of checks. Links are read from the newest item on, at most `looked`, each with
-- its own look-ups, until there are enough.
SELECT i.* FROM (
    SELECT * FROM interlock.github_links WHERE item < %(before)s ORDER BY item DESC LIMIT (SELECT %(looked)s::integer)
) AS l CROSS JOIN LATERAL (
    SELECT ci_outcome FROM interlock.github_heads AS h
    WHERE h.repository = l.repository AND h.number = l.number AND h.commit_id = l.commit_id OFFSET 0
) AS h CROSS JOIN LATERAL (
    SELECT * FROM interlock.items WHERE id = l.item AND h.ci_outcome = %(ci)s AND status = ANY(%(statuses)s::text[])
        AND (%(lane)s::text IS NULL OR lane = %(lane)s OR observed_lane = %(lane)s)
        AND (%(agent)s::text IS NULL OR agent_key = %(agent)s OR run_agent = %(agent)s)
        AND (%(project)s::text IS NULL OR project = %(project)s)
        AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
        AND (%(label)s::text IS NULL OR %(label)s = ANY(labels))
        AND (%(text)s::text IS NULL OR strpos(lower(title COLLATE "C"), %(text)s) > 0 OR strpos(lower(lane COLLATE "C"), %(text)s) > 0
            OR strpos(lower(observed_lane COLLATE "C"), %(text)s) > 0 OR strpos(agent_key, %(text)s) > 0 OR strpos(run_agent, %(text)s) > 0
            OR (SELECT 1 FROM interlock.dedupe_keys AS k WHERE k.item = items.id AND strpos(lower(k.key COLLATE "C"), %(text)s) > 0
                ORDER BY k.item LIMIT 1) IS NOT NULL) OFFSET 0
) AS i
WHERE h.ci_outcome = %(ci)s AND (
    SELECT o.run FROM interlock.github_links AS o WHERE o.item = l.item
        AND (o.number, o.run, o.linked_us, o.commit_id) > (l.number, l.run, l.linked_us, l.commit_id) LIMIT 1) IS NULL
ORDER BY l.item DESC LIMIT (SELECT %(limit)s::integer)
