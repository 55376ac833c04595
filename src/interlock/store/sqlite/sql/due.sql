-- Items whose time has come: deadlines of runs, ends of back-offs, schedules, times to be claimed, and those that ask for
-- an edit past its deadline. The earliest first, of one moment the oldest first, so that tickets decide who enters a lane
-- before whom, not the plan of a query.
SELECT id FROM (
    SELECT id, due_us AS at_us FROM items WHERE status = 'in_progress' AND due_us IS NOT NULL AND due_us <= :now_us
    UNION ALL
    SELECT id, due_us FROM items WHERE status = 'waiting' AND due_us IS NOT NULL AND due_us <= :now_us
    UNION ALL
    SELECT id, due_us FROM items WHERE status = 'pending' AND due_us IS NOT NULL AND due_us <= :now_us
    UNION ALL
    SELECT id, claim_by_us FROM items WHERE status = 'pending' AND claim_by_us IS NOT NULL AND claim_by_us <= :now_us
    UNION
    SELECT edit_item, deadline_us FROM plans WHERE deadline_us IS NOT NULL AND deadline_us <= :now_us
)
ORDER BY at_us, id LIMIT :limit
