-- Up to :limit ready items become runs of one agent, each once, the best sort key first. No lane is looked at.
-- Items for this agent and items for anyone are probed apart, so items for others cost nothing; and tasks are looked
-- for plan by plan, only where tasks are given out: no edit cycle is open and nobody has paused it.
UPDATE items SET
    status = 'in_progress',
    attempt = items.attempt + 1,
    run = :first_run + picked.nth,
    run_agent = :agent,
    run_worker = :worker,
    run_started_us = :now_us,
    run_lease_s = picked.span_s,
    lease_until_us = :now_us + CAST(round(picked.span_s * 1000000) AS INTEGER),
    due_us = :now_us + CAST(round(min(picked.span_s, ifnull(items.timeout_s, picked.span_s)) * 1000000) AS INTEGER),
    claim_by_us = NULL,
    delivered = min(items.message_count, 1000),
    seen = 0,
    first_claimed_us = ifnull(items.first_claimed_us, :now_us)
FROM (
    SELECT id, span_s, row_number() OVER (ORDER BY sort_key, id) - 1 AS nth
    FROM (
        SELECT * FROM (
            SELECT id, sort_key, coalesce(:lease_s, lease_s, :default_lease_s) AS span_s FROM items
            WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = :agent
                AND (:only IS NULL OR id = :only)
                AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
                AND (:edits OR type <> 'plan.edit')
                AND (labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(items.labels) AS needed
                    WHERE needed.value NOT IN (SELECT value FROM json_each(:labels))))
                AND project NOT IN (SELECT project FROM paused_projects)
            ORDER BY sort_key LIMIT :limit)
        UNION ALL
        SELECT * FROM (
            SELECT id, sort_key, coalesce(:lease_s, lease_s, :default_lease_s) AS span_s FROM items
            WHERE status = 'pending' AND due_us IS NULL AND plan IS NULL AND agent_key = ''
                AND (:only IS NULL OR id = :only)
                AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
                AND (labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(items.labels) AS needed
                    WHERE needed.value NOT IN (SELECT value FROM json_each(:labels))))
                AND project NOT IN (SELECT project FROM paused_projects)
            ORDER BY sort_key LIMIT :limit)
        UNION ALL
        SELECT i.id, i.sort_key, coalesce(:lease_s, i.lease_s, :default_lease_s)
        FROM plans p JOIN (SELECT :agent AS key UNION SELECT '') AS whose JOIN items i ON i.id IN (
            SELECT t.id FROM items t
            WHERE t.plan = p.id AND t.status = 'pending' AND t.due_us IS NULL AND t.plan IS NOT NULL
                AND t.agent_key = whose.key
                AND (:only IS NULL OR t.id = :only)
                AND (:types IS NULL OR t.type IN (SELECT value FROM json_each(:types)))
                AND (t.labels IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(t.labels) AS needed
                    WHERE needed.value NOT IN (SELECT value FROM json_each(:labels))))
            ORDER BY t.sort_key LIMIT :limit)
        WHERE p.status = 'running' AND p.cycle_us IS NULL AND p.paused_why IS NULL
            AND p.project NOT IN (SELECT project FROM paused_projects)
    )
    ORDER BY sort_key, id LIMIT :limit
) AS picked
WHERE items.id = picked.id
RETURNING *
