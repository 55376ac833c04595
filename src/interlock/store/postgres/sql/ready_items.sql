-- The sort keys of the best items without a plan that a claim may start now. Read without a lock.
SELECT sort_key FROM (
    (SELECT sort_key FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = %(agent)s
        AND id = %(only)s --? only
        AND type = ANY(%(types)s::text[]) --? types
        AND type <> 'plan.edit' --? no_edits
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
    ORDER BY sort_key LIMIT %(limit)s)
    UNION ALL
    (SELECT sort_key FROM interlock.items
    WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
        AND id = %(only)s --? only
        AND type = ANY(%(types)s::text[]) --? types
        AND (labels IS NULL OR labels <@ %(labels)s::text[])
        AND project NOT IN (SELECT project FROM interlock.paused_projects)
    ORDER BY sort_key LIMIT %(limit)s)
) AS best
ORDER BY sort_key LIMIT %(limit)s
