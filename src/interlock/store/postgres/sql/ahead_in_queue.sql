-- How many ready items would be claimed before this one, counted up to a limit.
SELECT (SELECT count(*) FROM (
        SELECT FROM interlock.offered r WHERE r.plan IS NULL AND r.agent_key = whose.agent AND r.sort_key < %(sort_key)s
        ORDER BY r.sort_key LIMIT (SELECT %(limit)s::integer)) AS items)
    + (SELECT count(*) FROM (
        SELECT FROM interlock.gates g CROSS JOIN LATERAL (
            SELECT r.sort_key FROM interlock.offered r
            WHERE r.plan = g.plan AND r.plan IS NOT NULL AND r.agent_key = whose.agent AND r.sort_key < %(sort_key)s
            ORDER BY r.sort_key LIMIT (SELECT %(limit)s::integer)) AS t
        WHERE g.open LIMIT (SELECT %(limit)s::integer)) AS tasks)
FROM (SELECT '' AS agent UNION SELECT %(agent)s) AS whose
