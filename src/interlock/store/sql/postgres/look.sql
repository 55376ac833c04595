-- All a claim must know beforehand: the agent as it was set, whether any item's time has come, and whether an
-- owner that waits for another agent, or a paused project, could be keeping a lane shut.
SELECT now.due, now.shut, a.key, a.name, a.max_concurrency, a.types, a.labels, a.paused_why, a.seen_us
FROM (
    SELECT EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status IN ('in_progress', 'waiting', 'pending') AND due_us IS NOT NULL
            AND due_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ) OR EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status = 'pending' AND claim_by_us IS NOT NULL
            AND claim_by_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ) OR EXISTS (
        SELECT 1 FROM interlock.plans
        WHERE deadline_us IS NOT NULL AND deadline_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ) AS due, EXISTS (
        SELECT 1 FROM interlock.items
        WHERE status = 'pending' AND lane IS NOT NULL AND agent_key <> '' AND agent_key <> %(agent)s
    ) OR EXISTS (SELECT 1 FROM interlock.paused_projects) AS shut
) AS now LEFT JOIN interlock.agents a ON a.key = %(agent)s
