-- No item is more than a minute overdue.
-- mend: interlock sweep --once, and keep a sweeper running: interlock sweep
SELECT 'item ' || id FROM items
WHERE status IN ('waiting', 'pending') AND due_us IS NOT NULL AND due_us < :now_us - 60000000
    OR status = 'pending' AND claim_by_us IS NOT NULL AND claim_by_us < :now_us - 60000000
