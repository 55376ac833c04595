-- Items whose time has come: deadlines of runs, ends of back-offs, schedules. The earliest first, of one moment the
-- oldest first, so that tickets decide who enters a lane before whom, not the plan of a query.
SELECT id FROM interlock.items
WHERE status IN ('in_progress', 'waiting', 'pending') AND due_us IS NOT NULL
    AND due_us <= coalesce(%(now_us)s, (SELECT interlock.now_us()))
ORDER BY due_us, id LIMIT %(limit)s
