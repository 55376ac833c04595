-- No run holds its item for more than a minute past its deadline.
-- mend: interlock sweep --once, and keep a sweeper running: interlock sweep
SELECT 'item ' || id || ', run ' || run || ' of ' || run_agent FROM interlock.items
WHERE status = 'in_progress' AND due_us IS NOT NULL AND due_us < %(now_us)s::bigint - 60000000
