-- Every open edit cycle has an unfinished edit request and is not long overdue.
-- mend: interlock sweep --once
SELECT 'plan ' || p.id FROM plans p WHERE p.cycle_us IS NOT NULL AND (p.deadline_us < :now_us - 60000000 OR NOT EXISTS (
    SELECT 1 FROM items i WHERE i.id = p.edit_item AND i.status IN ('waiting', 'deferred', 'pending', 'in_progress')))
