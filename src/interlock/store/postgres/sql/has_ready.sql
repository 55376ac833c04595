-- Whether a claim would find anything, locked or not.
SELECT EXISTS (
    SELECT 1 FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = %(agent)s
        AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
) OR EXISTS (
    SELECT 1 FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
        AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
) OR EXISTS (
    SELECT 1 FROM interlock.gates g WHERE g.open AND (
        SELECT true FROM interlock.items t
        WHERE t.plan = g.plan AND t.status = 'pending' AND t.due_us IS NULL AND t.plan IS NOT NULL
            AND t.agent_key IN ('', %(agent)s)
            AND (%(types)s::text[] IS NULL OR t.type = ANY(%(types)s))
            AND (t.labels IS NULL OR t.labels <@ %(labels)s::text[])
            AND t.project NOT IN (SELECT project FROM interlock.paused_projects) LIMIT 1)
)
