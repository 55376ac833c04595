-- Whether a claim of one item would find it, locked or not.
SELECT EXISTS (
    SELECT 1 FROM interlock.items
    WHERE id = %(item)s AND status = 'pending' AND due_us IS NULL AND agent_key IN ('', %(agent)s)
        AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
        AND (plan IS NULL OR EXISTS (SELECT 1 FROM interlock.gates g WHERE g.plan = items.plan AND g.open))
)
