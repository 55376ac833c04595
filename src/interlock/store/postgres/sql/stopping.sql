-- Unfinished tasks of plans being cancelled that were not asked to stop. It goes from the plans to their items, each by key: the server
-- might begin with all items. The tasks of a plan are a range, as the runs in presence.
SELECT t.item FROM interlock.plans p CROSS JOIN LATERAL (SELECT item FROM interlock.tasks WHERE plan BETWEEN p.id AND p.id OFFSET 0) AS t
WHERE p.status = 'cancelled' AND p.ended_us IS NULL AND (
    SELECT i.status IN ('waiting', 'deferred', 'pending', 'in_progress') AND coalesce(i.cancel_into, 'pending') = 'pending'
    FROM interlock.items i WHERE i.id = t.item)
LIMIT %(limit)s
