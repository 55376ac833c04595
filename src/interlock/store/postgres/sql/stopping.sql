-- Tasks of plans being cancelled that have not ended and were not asked to stop.
SELECT t.item FROM interlock.plans p JOIN interlock.tasks t ON t.plan = p.id
    JOIN interlock.items i ON i.id = t.item AND i.status IN ('waiting', 'deferred', 'pending', 'in_progress') AND coalesce(i.cancel_into, 'pending') = 'pending'
WHERE p.status = 'cancelled' AND p.ended_us IS NULL LIMIT %(limit)s
