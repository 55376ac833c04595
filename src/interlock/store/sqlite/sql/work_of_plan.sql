-- The total time of the ended runs of each task of a plan.
SELECT r.item, sum(r.ended_us - r.started_us) FROM tasks t JOIN runs r ON r.item = t.item
WHERE t.plan = :plan AND t.removed_revision IS NULL GROUP BY r.item
