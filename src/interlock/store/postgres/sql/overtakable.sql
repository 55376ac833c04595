-- Lanes whose owner cannot start or waits for a gone agent, with the first deferred item that this claim could start in its place. It
-- only reads; the decision is repeated under lock. It skips along the lines with items for this agent or anyone: other owners and
-- long lines cost nothing.
WITH RECURSIVE waited(agent, lane) AS (
    SELECT whose.agent, (SELECT i.lane FROM interlock.items i
        WHERE i.status = 'deferred' AND i.agent_key = whose.agent ORDER BY i.lane, i.position, i.ticket, i.id LIMIT 1)
    FROM unnest(ARRAY['', %(agent)s]) AS whose(agent)
    UNION ALL
    SELECT w.agent, (SELECT i.lane FROM interlock.items i
        WHERE i.status = 'deferred' AND i.agent_key = w.agent AND i.lane > w.lane
        ORDER BY i.lane, i.position, i.ticket, i.id LIMIT 1)
    FROM waited w WHERE w.lane IS NOT NULL
),
stuck AS MATERIALIZED (
    SELECT o.id, o.lane, o.agent_key, o.gone, (SELECT l.gate_exempt FROM interlock.lanes l WHERE l.lane = o.lane AND NOT l.gate_open) AS exempt
    FROM (SELECT DISTINCT lane FROM waited WHERE lane IS NOT NULL) AS line CROSS JOIN LATERAL (
        SELECT s.id, s.lane, s.agent_key, coalesce(s.until_us <= clock.now_us, true) AS gone
        FROM interlock.unstarted_owners s, (SELECT coalesce(%(now_us)s, interlock.clock_us()) AS now_us) AS clock
        WHERE s.lane = line.lane AND NOT s.firm AND (s.until_us > clock.now_us OR s.gone_us <= clock.now_us) LIMIT 1) AS o
)
SELECT rival.id, stuck.id, CASE WHEN stuck.gone THEN stuck.agent_key END FROM stuck CROSS JOIN LATERAL (
    SELECT d.id, d.sort_key FROM interlock.items d
    WHERE d.lane = stuck.lane AND d.status = 'deferred' AND d.agent_key IN ('', %(agent)s) AND d.position = 2147483647
        AND interlock.fits(d.type, d.labels, %(types)s, %(labels)s, %(edits)s)
        AND (stuck.exempt IS NULL OR d.type = ANY(stuck.exempt))
        AND d.project NOT IN (SELECT project FROM interlock.paused_projects)
        AND NOT d.blocked AND NOT (SELECT l.blocked FROM interlock.lanes l WHERE l.lane = d.lane)
        AND (d.plan IS NULL OR EXISTS (SELECT FROM interlock.gates g WHERE g.plan = d.plan AND g.open))
    ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 1
) AS rival
WHERE %(only)s::bigint IS NULL OR rival.id = %(only)s ORDER BY rival.sort_key LIMIT %(limit)s
