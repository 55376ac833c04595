-- All a claim must know beforehand: the agent as it was set, whether any item's time has come, and whether an
-- owner that waits for another agent, a paused project or a plan that gives out no tasks could be keeping a lane shut.
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
    ) OR EXISTS (SELECT 1 FROM interlock.paused_projects) OR (EXISTS (
        SELECT 1 FROM interlock.plans WHERE ended_us IS NULL AND (cycle_us IS NOT NULL OR paused_why IS NOT NULL)
    ) AND (
        -- Not EXISTS, which may be planned to read the table where most of it is what is looked for.
        SELECT min(plan) FROM interlock.items WHERE status = 'pending' AND lane IS NOT NULL AND plan IS NOT NULL
    ) IS NOT NULL) AS shut
) AS now LEFT JOIN interlock.agents a ON a.key = %(agent)s
