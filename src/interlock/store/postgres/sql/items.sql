-- The newest matching items of some statuses. Of each status the newest `looked` items are read, until `limit` of them match. That limit
-- also keeps the planner on the index: it would sort all items of a status where it expects few matches.
SELECT i.* FROM unnest(%(statuses)s::text[]) AS s(status) CROSS JOIN LATERAL (
    SELECT * FROM (SELECT * FROM interlock.items WHERE items.status = s.status AND -id > -%(before)s::bigint ORDER BY -id
        LIMIT (SELECT %(looked)s::bigint)) AS i
    WHERE (%(lane)s::text IS NULL OR lane = %(lane)s OR observed_lane = %(lane)s)
        AND (%(agent)s::text IS NULL OR agent_key = %(agent)s OR run_agent = %(agent)s)
        AND (%(project)s::text IS NULL OR project = %(project)s)
        AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
        AND (%(label)s::text IS NULL OR %(label)s = ANY(labels))
        AND (%(text)s::text IS NULL OR strpos(lower(title COLLATE "C"), %(text)s) > 0 OR strpos(lower(lane COLLATE "C"), %(text)s) > 0
            OR strpos(lower(observed_lane COLLATE "C"), %(text)s) > 0 OR strpos(agent_key, %(text)s) > 0 OR strpos(run_agent, %(text)s) > 0
            OR (SELECT 1 FROM interlock.dedupe_keys AS k WHERE k.item = i.id AND strpos(lower(k.key COLLATE "C"), %(text)s) > 0
                ORDER BY k.item LIMIT 1) IS NOT NULL)
    LIMIT (SELECT %(limit)s::integer)
) AS i
ORDER BY i.id DESC LIMIT (SELECT %(limit)s::integer)
