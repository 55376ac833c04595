-- Unfinished tasks of plans being cancelled that were not asked to stop.
SELECT t.item FROM plans p CROSS JOIN tasks t INDEXED BY tasks_plan ON t.plan = p.id
    CROSS JOIN items i NOT INDEXED ON i.id = t.item AND i.status IN ('waiting', 'deferred', 'pending', 'in_progress') AND ifnull(i.cancel_into, 'pending') = 'pending'
WHERE p.status = 'cancelled' AND p.ended_us IS NULL LIMIT :limit
