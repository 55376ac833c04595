-- No lease expired more than a minute ago without being swept.
-- mend: interlock sweep --once, and keep a sweeper running: interlock sweep
SELECT 'item ' || id || ', run ' || run || ' of ' || run_agent FROM interlock.items
WHERE status = 'in_progress' AND due_us IS NOT NULL AND due_us < %(now_us)s::bigint - 60000000
