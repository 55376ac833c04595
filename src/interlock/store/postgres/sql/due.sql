-- Items whose time has come: deadlines of runs, ends of back-offs, schedules, times to be claimed, and those
-- that ask for an edit past its deadline. The earliest first, of one moment the oldest first, so that tickets decide who
-- enters a lane before whom, not the plan of a query.
SELECT id FROM (
    (SELECT id, due_us AS at_us FROM interlock.items
    WHERE status IN ('in_progress', 'waiting', 'pending') AND due_us IS NOT NULL
        AND due_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ORDER BY due_us, id LIMIT %(limit)s)
    UNION ALL
    (SELECT id, claim_by_us FROM interlock.items
    WHERE status = 'pending' AND claim_by_us IS NOT NULL
        AND claim_by_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ORDER BY claim_by_us, id LIMIT %(limit)s)
    UNION
    (SELECT edit_item, deadline_us FROM interlock.plans
    WHERE deadline_us IS NOT NULL AND deadline_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
    ORDER BY deadline_us LIMIT %(limit)s)
) AS late
ORDER BY at_us, id LIMIT %(limit)s
