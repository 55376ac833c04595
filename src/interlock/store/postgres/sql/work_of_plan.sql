-- The total time of the ended runs of each task of a plan. The index of runs has ranges, not items, so it is read once, for all from
-- the first task to the last.
SELECT r.item, sum(r.ended_us - r.started_us)::bigint FROM interlock.runs r
    JOIN interlock.tasks t ON t.item = r.item AND t.plan = %(plan)s AND t.removed_revision IS NULL
WHERE r.item >= (SELECT min(item) FROM interlock.tasks WHERE plan = %(plan)s)
    AND r.item <= (SELECT max(item) FROM interlock.tasks WHERE plan = %(plan)s)
GROUP BY r.item
