-- Whether a claim would find anything, locked or not.
SELECT coalesce((
    SELECT true FROM unnest(ARRAY['', %(agent)s]) AS whose(agent) CROSS JOIN LATERAL (
        SELECT FROM interlock.offered
        WHERE plan IS NULL AND agent_key = whose.agent AND interlock.fits(type, labels, NULL, %(labels)s, %(edits)s)
        ORDER BY sort_key LIMIT 1
    ) AS r
    WHERE %(only)s::bigint IS NULL AND %(types)s::text[] IS NULL LIMIT 1
), (
    SELECT true FROM unnest(ARRAY['', %(agent)s]) AS whose(agent) CROSS JOIN unnest((SELECT %(types)s::text[])) AS wanted(type)
    CROSS JOIN LATERAL (
        SELECT FROM interlock.offered
        WHERE plan IS NULL AND agent_key = whose.agent AND type = wanted.type
            AND interlock.fits(type, labels, NULL, %(labels)s, %(edits)s)
        ORDER BY sort_key LIMIT 1
    ) AS r
    WHERE %(only)s::bigint IS NULL LIMIT 1
), (
    SELECT true FROM interlock.ready
    WHERE id = %(only)s AND agent_key IN ('', %(agent)s)
        AND interlock.fits(type, labels, %(types)s, %(labels)s, %(edits)s)
), (
    SELECT true FROM interlock.gates g CROSS JOIN unnest(ARRAY['', %(agent)s]) AS whose(agent) CROSS JOIN LATERAL (
        SELECT FROM interlock.offered r
        WHERE r.plan = g.plan AND r.plan IS NOT NULL AND r.agent_key = whose.agent
            AND interlock.fits(r.type, r.labels, %(types)s, %(labels)s, %(edits)s)
        ORDER BY r.sort_key LIMIT 1
    ) AS t
    WHERE g.open AND %(only)s::bigint IS NULL LIMIT 1
), false)
