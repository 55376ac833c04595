-- Lanes whose owner cannot start, with the first deferred item that this wish could start in its place. Read only; decided
-- again under lock. It begins with the lines that this agent, or anyone, waits in: other owners cost nothing.
WITH waited AS MATERIALIZED (
    SELECT lane FROM interlock.items WHERE status = 'deferred' AND agent_key = %(agent)s AND position = 2147483647
    UNION
    SELECT lane FROM interlock.items WHERE status = 'deferred' AND agent_key = '' AND position = 2147483647
),
stuck AS MATERIALIZED (
    SELECT o.id, o.lane FROM waited CROSS JOIN LATERAL (
        SELECT * FROM interlock.stuck_owners s WHERE s.lane = waited.lane LIMIT 1) AS o
)
SELECT rival.id, stuck.id FROM stuck CROSS JOIN LATERAL (
    SELECT d.id, d.sort_key FROM interlock.items d
    WHERE d.lane = stuck.lane AND d.status = 'deferred' AND d.agent_key IN ('', %(agent)s) AND d.position = 2147483647
        AND interlock.fits(d.type, d.labels, %(types)s, %(labels)s, %(edits)s)
        AND d.project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (d.plan IS NULL OR EXISTS (SELECT FROM interlock.gates g WHERE g.plan = d.plan AND g.open))
    ORDER BY d.front DESC, d.position, d.ticket, d.id LIMIT 1
) AS rival
WHERE %(only)s::bigint IS NULL OR rival.id = %(only)s ORDER BY rival.sort_key LIMIT %(limit)s
