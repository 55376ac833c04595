-- The best tasks that a claim may start now, of plans that give out tasks: plan by plan, for this agent and for anyone
-- apart. Read without a lock, and looked at again under one. Lines marked --? are there when asked for.
SELECT best.id, best.sort_key FROM interlock.gates g CROSS JOIN LATERAL (
    (SELECT id, sort_key FROM interlock.items
    WHERE plan = g.plan AND status = 'pending' AND due_us IS NULL AND plan IS NOT NULL AND agent_key = %(agent)s
        AND id = %(only)s --? only
        AND type = ANY(%(types)s::text[]) --? types
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
    ORDER BY sort_key LIMIT %(limit)s)
    UNION ALL
    (SELECT id, sort_key FROM interlock.items
    WHERE plan = g.plan AND status = 'pending' AND due_us IS NULL AND plan IS NOT NULL AND agent_key = ''
        AND id = %(only)s --? only
        AND type = ANY(%(types)s::text[]) --? types
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
    ORDER BY sort_key LIMIT %(limit)s)
) AS best
WHERE g.open ORDER BY best.sort_key, best.id LIMIT %(limit)s
